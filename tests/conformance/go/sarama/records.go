package main

import (
	"bytes"
	"fmt"
	"time"

	"github.com/IBM/sarama"
	"odradek/conformance/checks"
)

// codecs: records come back as they were, in each codec that a client of the version knows.
func codecs(w *checks.World) {
	all := []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	}
	for _, version := range versions {
		for _, codec := range all {
			if codec == sarama.CompressionZSTD && !version.IsAtLeast(sarama.V2_1_0_0) {
				continue
			}
			inCodec(w, version, codec)
		}
	}
}

func inCodec(w *checks.World, version sarama.KafkaVersion, codec sarama.CompressionCodec) {
	config := configured(version)
	config.Producer.Compression = codec
	if version.IsAtLeast(sarama.V2_8_0_0) {
		config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
		config.RackID = "r1"
	}
	to := topic(w, version.String()+"-"+codec.String(), 2)
	producer, err := sarama.NewSyncProducerFromClient(client(w, config))
	w.OK(err, "a producer")
	defer producer.Close()
	sent := numbered(to, 0, 100)
	sent[0].Value, sent[1].Key = nil, nil
	sent[2].Headers = []sarama.RecordHeader{{Key: []byte("a"), Value: []byte("b")}}
	w.OK(producer.SendMessages(sent), "produce")
	found := map[string]*sarama.ConsumerMessage{}
	for _, message := range messages(w, config, to, len(sent)) {
		found[fmt.Sprint(message.Partition, message.Offset)] = message
	}
	for n, message := range sent {
		got := found[fmt.Sprint(message.Partition, message.Offset)]
		if got == nil || !bytes.Equal(got.Key, encoded(message.Key)) || !bytes.Equal(got.Value, encoded(message.Value)) {
			w.Fail("%v %v: record %d is another", version, codec, n)
		}
		w.Same(len(got.Headers), len(message.Headers), "headers")
	}
}

func encoded(encoder sarama.Encoder) []byte {
	if encoder == nil {
		return nil
	}
	text, _ := encoder.Encode()
	return text
}

// times: offsets by time, by each sentinel, and in each version.
func times(w *checks.World) {
	to := topic(w, "t", 1)
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	producer, err := sarama.NewSyncProducerFromClient(client(w, newest()))
	w.OK(err, "a producer")
	defer producer.Close()
	for n, after := range []int{0, 30, 10, 20} {
		message := &sarama.ProducerMessage{
			Topic: to, Value: sarama.StringEncoder(fmt.Sprint(n)), Timestamp: base.Add(time.Duration(after) * time.Second),
		}
		_, _, err := producer.SendMessage(message)
		w.OK(err, "produce")
	}
	for _, version := range versions {
		cl := client(w, configured(version))
		for _, at := range []int64{sarama.OffsetOldest, sarama.OffsetNewest, base.Add(15 * time.Second).UnixMilli(), base.Add(time.Minute).UnixMilli()} {
			found, err := cl.GetOffset(to, 0, at)
			w.Saw("%v: offset %d, error %s", version, found, checks.Or(err))
		}
	}
	adm := admin(w, newest())
	for _, at := range []int64{-1, -2, -3, -4, -5, -6} {
		found, err := adm.ListOffsets(map[string]map[int32]int64{to: {0: at}}, &sarama.ListOffsetsOptions{IsolationLevel: sarama.ReadCommitted})
		w.OK(err, "list offsets")
		one := found[to][0]
		w.Saw("at %d: offset %d, epoch %d, with a time %t, error %s", at, one.Offset, one.LeaderEpoch, one.Timestamp > 0, checks.Or(one.Err))
	}
}

// recreated: a topic is deleted and comes again, and a producer of an old client goes on.
func recreated(w *checks.World) {
	name := topic(w, "r", 1)
	config := newest()
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = 30, 200*time.Millisecond
	producer, err := sarama.NewSyncProducerFromClient(client(w, config))
	w.OK(err, "a producer")
	defer producer.Close()
	w.OK(producer.SendMessages(numbered(name, 0, 5)), "produce")
	adm := admin(w, newest())
	w.OK(adm.DeleteTopic(name), "delete")
	w.Until("the topic is gone", func() bool {
		found, err := adm.DescribeTopics([]string{name})
		return err == nil && found[0].Err == sarama.ErrUnknownTopicOrPartition
	})
	w.OK(adm.CreateTopic(name, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false), "create again")
	w.OK(producer.SendMessages(numbered(name, 100, 5)), "produce again")
	w.Same(values(messages(w, newest(), name, 5)), each(100, 5), "records of the new topic")
}

// transactional returns a producer of a transactional id.
func transactional(w *checks.World, version sarama.KafkaVersion, id string) sarama.SyncProducer {
	config := configured(version)
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.Transaction.ID = id
	producer, err := sarama.NewSyncProducer([]string{w.Broker}, config)
	w.OK(err, "a transactional producer")
	w.Later(func() { _ = producer.Close() })
	return producer
}

// transactions: committed records are read, aborted ones are not; a second producer fences the first.
func transactions(w *checks.World) {
	for _, version := range versions {
		to, id := topic(w, version.String(), 1), w.Topic("id-"+version.String())
		producer := transactional(w, version, id)
		for n, end := range []func() error{producer.CommitTxn, producer.AbortTxn, producer.CommitTxn} {
			w.OK(producer.BeginTxn(), "begin")
			w.OK(producer.SendMessages(numbered(to, n*10, 10)), "produce")
			w.OK(end(), "end")
		}
		config := configured(version)
		config.Consumer.IsolationLevel = sarama.ReadCommitted
		committed := each(0, 10)
		for value := range each(20, 10) {
			committed[value] = 1
		}
		w.Same(values(messages(w, config, to, 20)), committed, "committed records")
		w.Same(values(messages(w, configured(version), to, 30)), each(0, 30), "all records")
		w.OK(producer.BeginTxn(), "begin")
		w.OK(producer.SendMessages(numbered(to, 30, 1)), "produce")
		second := transactional(w, version, id)
		w.OK(second.BeginTxn(), "begin")
		err := producer.SendMessages(numbered(to, 31, 1))
		if err == nil {
			err = producer.CommitTxn()
		}
		w.Saw("%v: the first producer: %s", version, checks.Or(err))
		w.Same(err != nil, true, "fenced")
		w.OK(second.SendMessages(numbered(to, 40, 1)), "produce")
		w.OK(second.CommitTxn(), "commit")
	}
}
