// Sarama checks a broker by Sarama, as a client of several versions of Kafka.
package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"odradek/conformance/checks"
)

// The client speaks the versions of requests that a Kafka of this version knew.
var versions = []sarama.KafkaVersion{sarama.V1_0_0_0, sarama.V2_8_0_0, sarama.V4_3_1_0}

func main() {
	checks.Main([]checks.Check{
		{Name: "codecs", Run: codecs},
		{Name: "times", Run: times},
		{Name: "recreated", Run: recreated},
		{Name: "transactions", Run: transactions},
		{Name: "exactly-once", Run: exactlyOnce},
		{Name: "classic", Run: classic},
		{Name: "cooperative", Run: cooperative},
		{Name: "static", Run: static},
		{Name: "topics", Run: topics},
		{Name: "configs", Run: configs},
		{Name: "offsets", Run: offsets},
		{Name: "users", Run: users},
		{Name: "replicas", Run: replicas},
		{Name: "secure", Run: secure},
		{Name: "acls", Run: acls},
		{Name: "restart", Run: restart},
	})
}

func configured(version sarama.KafkaVersion) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Metadata.Retry.Max = 10
	return config
}

func newest() *sarama.Config { return configured(sarama.V4_3_1_0) }

func client(w *checks.World, config *sarama.Config) sarama.Client {
	made, err := sarama.NewClient([]string{w.Broker}, config)
	w.OK(err, "a client")
	w.Later(func() { _ = made.Close() })
	return made
}

func admin(w *checks.World, config *sarama.Config) sarama.ClusterAdmin {
	made, err := sarama.NewClusterAdmin([]string{w.Broker}, config)
	w.OK(err, "an admin")
	w.Later(func() { _ = made.Close() })
	return made
}

// topic creates a topic of so many partitions.
func topic(w *checks.World, suffix string, partitions int32) string {
	name := w.Topic(suffix)
	adm := admin(w, newest())
	w.OK(adm.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false), "create")
	// Kafka answers before its own metadata has the topic.
	w.Until("the topic is in the metadata", func() bool {
		found, err := adm.DescribeTopics([]string{name})
		return err == nil && found[0].Err == sarama.ErrNoError && len(found[0].Partitions) == int(partitions)
	})
	return name
}

func numbered(topic string, first, count int) []*sarama.ProducerMessage {
	var found []*sarama.ProducerMessage
	for n := first; n < first+count; n++ {
		text := sarama.StringEncoder(fmt.Sprintf("%05d", n))
		found = append(found, &sarama.ProducerMessage{Topic: topic, Key: text, Value: text})
	}
	return found
}

// written produces values `first` to `first + count - 1`.
func written(w *checks.World, topic string, first, count int) {
	producer, err := sarama.NewSyncProducerFromClient(client(w, newest()))
	w.OK(err, "a producer")
	defer producer.Close()
	w.OK(producer.SendMessages(numbered(topic, first, count)), "produce")
}

func each(first, count int) map[string]int {
	found := map[string]int{}
	for n := first; n < first+count; n++ {
		found[fmt.Sprintf("%05d", n)] = 1
	}
	return found
}

// messages reads so many records of a topic from its start.
func messages(w *checks.World, config *sarama.Config, topic string, count int) []*sarama.ConsumerMessage {
	cl := client(w, config)
	consumer, err := sarama.NewConsumerFromClient(cl)
	w.OK(err, "a consumer")
	defer consumer.Close()
	partitions, err := cl.Partitions(topic)
	w.OK(err, "partitions")
	all := make(chan *sarama.ConsumerMessage)
	done := make(chan bool)
	var running sync.WaitGroup
	defer running.Wait()
	defer close(done)
	for _, number := range partitions {
		one, err := consumer.ConsumePartition(topic, number, sarama.OffsetOldest)
		w.OK(err, "consume")
		running.Go(func() {
			defer one.Close()
			for {
				select {
				case message := <-one.Messages():
					select {
					case all <- message:
					case <-done:
						return
					}
				case <-done:
					return
				}
			}
		})
	}
	var found []*sarama.ConsumerMessage
	for len(found) < count {
		select {
		case message := <-all:
			found = append(found, message)
		case <-w.Ctx.Done():
			w.Fail("%d of %d records came", len(found), count)
		}
	}
	return found
}

func values(found []*sarama.ConsumerMessage) map[string]int {
	counted := map[string]int{}
	for _, message := range found {
		counted[string(message.Value)]++
	}
	return counted
}
