// Kafkago checks a broker by kafka-go: its writer, its readers, its client of single requests, and its logins.
package main

import (
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"odradek/conformance/checks"
)

func main() {
	checks.Main([]checks.Check{
		{Name: "codecs", Run: codecs},
		{Name: "times", Run: times},
		{Name: "classic", Run: classic},
		{Name: "topics", Run: topics},
		{Name: "configs", Run: configs},
		{Name: "offsets", Run: offsets},
		{Name: "transactions", Run: transactions},
		{Name: "users", Run: users},
		{Name: "replicas", Run: replicas},
		{Name: "secure", Run: secure},
		{Name: "acls", Run: acls},
		{Name: "restart", Run: restart},
	})
}

func client(w *checks.World) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(w.Broker), Timeout: 20 * time.Second}
}

func writer(w *checks.World, topic string) *kafka.Writer {
	made := &kafka.Writer{
		Addr: kafka.TCP(w.Broker), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
		Balancer: &kafka.Hash{},
	}
	w.Later(func() { _ = made.Close() })
	return made
}

func reader(w *checks.World, config kafka.ReaderConfig) *kafka.Reader {
	config.Brokers = []string{w.Broker}
	config.MaxWait = 200 * time.Millisecond
	made := kafka.NewReader(config)
	w.Later(func() { _ = made.Close() })
	return made
}

// topic creates a topic of so many partitions.
func topic(w *checks.World, suffix string, partitions int) string {
	name := w.Topic(suffix)
	config := kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}
	done, err := client(w).CreateTopics(w.Ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	w.OK(err, "create")
	w.OK(done.Errors[name], "create "+name)
	// Kafka answers before its own metadata has the topic.
	w.Until("the topic is in the metadata", func() bool {
		found, err := client(w).Metadata(w.Ctx, &kafka.MetadataRequest{Topics: []string{name}})
		return err == nil && found.Topics[0].Error == nil && len(found.Topics[0].Partitions) == partitions
	})
	return name
}

func numbered(first, count int) []kafka.Message {
	var found []kafka.Message
	for n := first; n < first+count; n++ {
		text := []byte(fmt.Sprintf("%05d", n))
		found = append(found, kafka.Message{Key: text, Value: text})
	}
	return found
}

func written(w *checks.World, topic string, first, count int) {
	w.OK(writer(w, topic).WriteMessages(w.Ctx, numbered(first, count)...), "produce")
}

// read returns how often each value of the next records came.
func read(w *checks.World, from *kafka.Reader, count int) map[string]int {
	values := map[string]int{}
	for range count {
		message, err := from.ReadMessage(w.Ctx)
		w.OK(err, fmt.Sprintf("read (%d of %d are here)", len(values), count))
		values[string(message.Value)]++
	}
	return values
}

func each(first, count int) map[string]int {
	found := map[string]int{}
	for n := first; n < first+count; n++ {
		found[fmt.Sprintf("%05d", n)] = 1
	}
	return found
}
