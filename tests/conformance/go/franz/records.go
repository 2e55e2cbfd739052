package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

const minAge = 50 * time.Millisecond

// codecs: records come back as they were, in each codec, with headers, nulls and a rack.
func codecs(w *checks.World) {
	all := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range all {
		to := topic(w, name, 3)
		cl := client(w, kgo.ProducerBatchCompression(codec), kgo.ConsumeTopics(to), kgo.Rack("r1"))
		records := numbered(to, 0, 300)
		records[0].Value = nil
		records[1].Key = nil
		records[2].Headers = []kgo.RecordHeader{{Key: "a", Value: []byte("b")}, {Key: "a", Value: nil}}
		records[3].Value = []byte(strings.Repeat("much ", 40_000))
		w.OK(cl.ProduceSync(w.Ctx, records...).FirstErr(), "produce "+name)
		found := map[string]*kgo.Record{}
		for len(found) < len(records) {
			fetches := cl.PollFetches(w.Ctx)
			w.OK(fetches.Err(), "poll "+name)
			fetches.EachRecord(func(r *kgo.Record) { found[fmt.Sprint(r.Partition, r.Offset)] = r })
		}
		for n, sent := range records {
			got := found[fmt.Sprint(sent.Partition, sent.Offset)]
			if got == nil || !bytes.Equal(got.Key, sent.Key) || !bytes.Equal(got.Value, sent.Value) {
				w.Fail("%s: record %d is another", name, n)
			}
			w.Same(got.Value == nil, sent.Value == nil, "null value")
			w.Same(got.Headers, sent.Headers, "headers")
			w.Same(got.Timestamp.UnixMilli(), sent.Timestamp.UnixMilli(), "timestamp")
		}
	}
}

// acks: none, the leader's and all; a batch that is too large; an unknown topic.
func acks(w *checks.World) {
	to := topic(w, "a", 1)
	for _, how := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck(), kgo.AllISRAcks()} {
		cl := client(w, kgo.RequiredAcks(how), kgo.DisableIdempotentWrite())
		written(w, cl, to, 0, 10)
	}
	w.Same(len(read(w, client(w, kgo.ConsumeTopics(to)), 30)), 10, "values")
	large := client(w, kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	err := large.ProduceSync(w.Ctx, &kgo.Record{Topic: to, Value: make([]byte, 2<<20)}).FirstErr()
	w.Is(err, kerr.MessageTooLarge, "a batch of 2 MiB")
	idle := client(w, kgo.UnknownTopicRetries(1))
	err = idle.ProduceSync(w.Ctx, &kgo.Record{Topic: w.Topic("never"), Value: []byte("x")}).FirstErr()
	w.Is(err, kerr.UnknownTopicOrPartition, "a topic that is not there")
	made := client(w, kgo.AllowAutoTopicCreation())
	written(w, made, w.Topic("by-itself"), 0, 1)
}

// times: offsets by time and by every sentinel, and reading from a time on.
func times(w *checks.World) {
	to := topic(w, "t", 1)
	cl := client(w)
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	for n, after := range []int{0, 30, 10, 20} {
		r := &kgo.Record{Topic: to, Value: []byte{byte(n)}, Timestamp: base.Add(time.Duration(after) * time.Second)}
		w.OK(cl.ProduceSync(w.Ctx, r).FirstErr(), "produce")
	}
	adm := admin(w)
	start, err := adm.ListStartOffsets(w.Ctx, to)
	saw(w, "start", start, err, to, base)
	end, err := adm.ListEndOffsets(w.Ctx, to)
	saw(w, "end", end, err, to, base)
	committed, err := adm.ListCommittedOffsets(w.Ctx, to)
	saw(w, "committed", committed, err, to, base)
	most, err := adm.ListMaxTimestampOffsets(w.Ctx, to)
	w.Same(saw(w, "max timestamp", most, err, to, base), int64(1), "offset of the largest timestamp")
	local, err := adm.ListLocalLogStartOffsets(w.Ctx, to)
	saw(w, "local log start", local, err, to, base)
	remote, err := adm.ListLatestRemoteOffsets(w.Ctx, to)
	saw(w, "latest remote", remote, err, to, base)
	for _, after := range []int{-5, 5, 15, 30, 31} {
		found, err := adm.ListOffsetsAfterMilli(w.Ctx, base.Add(time.Duration(after)*time.Second).UnixMilli(), to)
		saw(w, fmt.Sprint("after ", after), found, err, to, base)
	}
	later := client(w, kgo.ConsumeTopics(to), kgo.ConsumeResetOffset(kgo.NewOffset().AfterMilli(base.Add(15*time.Second).UnixMilli())))
	first := later.PollFetches(w.Ctx).Records()
	w.Same(first[0].Offset, int64(1), "first record from a time on")
	beyond := client(w, kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{to: {0: kgo.NewOffset().At(99)}}))
	w.Is(beyond.PollFetches(w.Ctx).Err(), kerr.OffsetOutOfRange, "an offset beyond the end")
}

// sessions: with and without fetch sessions; topics that join and leave one.
func sessions(w *checks.World) {
	names := []string{topic(w, "a", 2), topic(w, "b", 2), topic(w, "c", 2)}
	producer := client(w)
	for _, options := range [][]kgo.Opt{{}, {kgo.DisableFetchSessions()}} {
		cl := client(w, append(options, kgo.ConsumeTopics(names[0]), kgo.FetchMaxWait(200*time.Millisecond))...)
		earlier := len(options) * 3
		for n, name := range names {
			cl.AddConsumeTopics(name)
			written(w, producer, name, 0, 20)
			read(w, cl, 20*(earlier/3+1))
			if n == 1 {
				cl.PauseFetchTopics(names[0])
				cl.PurgeTopicsFromClient(names[0])
			}
		}
		ctx, cancel := context.WithTimeout(w.Ctx, 700*time.Millisecond)
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			w.Same(fetches.NumRecords(), 0, "records of an idle poll")
			if err := fetches.Err0(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				w.Fail("an idle poll: %v", err)
			}
		}
		cancel()
	}
}

// recreated: a topic is deleted and comes again under its name, and producers and consumers go on.
func recreated(w *checks.World) {
	name := topic(w, "r", 1)
	options := []kgo.Opt{kgo.ConsumeTopics(name), kgo.MetadataMaxAge(time.Second), kgo.UnknownTopicRetries(-1)}
	old := client(w, options...)
	written(w, old, name, 0, 5)
	read(w, old, 5)
	adm := admin(w)
	_, err := adm.DeleteTopic(w.Ctx, name)
	w.OK(err, "delete")
	w.Until("the topic is gone", func() bool {
		found, err := adm.ListTopics(w.Ctx, name)
		return err == nil && errors.Is(found[name].Err, kerr.UnknownTopicOrPartition)
	})
	_, err = adm.CreateTopic(w.Ctx, 1, 1, nil, name)
	w.OK(err, "create again")
	fresh := client(w)
	written(w, fresh, name, 100, 5)
	again := client(w, kgo.ConsumeTopics(name))
	w.Same(read(w, again, 5), each(100, 5), "records of the new topic")
	w.Saw("the old consumer: %v", firstOutcome(w, old))
	old.PurgeTopicsFromClient(name)
	old.AddConsumeTopics(name)
	w.Same(read(w, old, 5), each(100, 5), "records of the new topic for an old client")
	written(w, old, name, 200, 5)
	w.Same(read(w, again, 5), each(200, 5), "records of an old client")
}

// firstOutcome polls until there is an error or a record.
func firstOutcome(w *checks.World, cl *kgo.Client) string {
	for {
		fetches := cl.PollFetches(w.Ctx)
		if err := fetches.Err(); err != nil {
			return checks.Or(err)
		}
		if fetches.NumRecords() > 0 {
			return "records"
		}
	}
}
