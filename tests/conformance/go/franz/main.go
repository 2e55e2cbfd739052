// Franz checks a broker by franz-go: records, transactions, the three kinds of groups, administration and security.
package main

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

func main() {
	checks.Main([]checks.Check{
		{Name: "codecs", Run: codecs},
		{Name: "acks", Run: acks},
		{Name: "times", Run: times},
		{Name: "sessions", Run: sessions},
		{Name: "recreated", Run: recreated},
		{Name: "transactions", Run: transactions},
		{Name: "fencing", Run: fencing},
		{Name: "exactly-once", Run: exactlyOnce},
		{Name: "older", Run: older},
		{Name: "classic", Run: classic},
		{Name: "static", Run: static},
		{Name: "consumer", Run: consumer},
		{Name: "consumer-static", Run: consumerStatic},
		{Name: "consumer-regex", Run: consumerRegex},
		{Name: "patterns", Run: patterns},
		{Name: "upgrade", Run: upgrade},
		{Name: "share", Run: share},
		{Name: "share-two", Run: shareTwo},
		{Name: "share-offsets", Run: shareOffsets},
		{Name: "share-bounds", Run: shareBounds},
		{Name: "kinds", Run: kinds},
		{Name: "expired", Run: expired},
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

// client returns a client that the end of the check closes.
func client(w *checks.World, options ...kgo.Opt) *kgo.Client {
	options = append([]kgo.Opt{
		kgo.SeedBrokers(w.Broker), kgo.MetadataMinAge(minAge),
	}, options...)
	made, err := kgo.NewClient(options...)
	w.OK(err, "a client")
	w.Later(sync.OnceFunc(made.Close))
	return made
}

func admin(w *checks.World) *kadm.Client { return kadm.NewClient(client(w)) }

// topic creates a topic of so many partitions.
func topic(w *checks.World, suffix string, partitions int32) string {
	name := w.Topic(suffix)
	created, err := admin(w).CreateTopic(w.Ctx, partitions, 1, nil, name)
	w.OK(err, "create "+name)
	w.Same(created.NumPartitions, partitions, "partitions of a new topic")
	// Kafka answers before its own metadata has the topic.
	w.Until("the topic is in the metadata", func() bool {
		found, err := admin(w).ListTopics(w.Ctx, name)
		return err == nil && found[name].Err == nil && len(found[name].Partitions) == int(partitions)
	})
	return name
}

// written produces values `first` to `first + count - 1` to a topic, the number in key and value.
func written(w *checks.World, cl *kgo.Client, topic string, first, count int) {
	results := cl.ProduceSync(w.Ctx, numbered(topic, first, count)...)
	w.OK(results.FirstErr(), "produce to "+topic)
}

func numbered(topic string, first, count int) []*kgo.Record {
	var found []*kgo.Record
	for n := first; n < first+count; n++ {
		text := []byte(fmt.Sprintf("%05d", n))
		found = append(found, &kgo.Record{Topic: topic, Key: text, Value: text})
	}
	return found
}

// read polls until so many records came, and returns how often each value did.
func read(w *checks.World, cl *kgo.Client, count int) map[string]int {
	values := map[string]int{}
	for got := 0; got < count; {
		fetches := cl.PollFetches(w.Ctx)
		w.OK(fetches.Err0(), fmt.Sprintf("poll (%d of %d are here)", got, count))
		fetches.EachError(func(t string, p int32, err error) { w.Fail("fetch %s-%d: %v", t, p, err) })
		fetches.EachRecord(func(r *kgo.Record) { values[string(r.Value)]++; got++ })
	}
	return values
}

// each is what `read` returns where every value came once.
func each(first, count int) map[string]int {
	found := map[string]int{}
	for n := first; n < first+count; n++ {
		found[fmt.Sprintf("%05d", n)] = 1
	}
	return found
}
