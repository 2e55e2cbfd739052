package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

// shareBounds: records whose deliveries are used up, and transactions that a careful group awaits.
func shareBounds(w *checks.World) {
	to, group := topic(w, "s", 1), w.Topic("g")
	configured(w, group, map[string]string{"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"})
	producer := client(w, kgo.TransactionalID(w.Topic("id")))
	for n, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		w.OK(producer.BeginTransaction(), "begin")
		written(w, producer, to, n*10, 3)
		w.OK(producer.EndTransaction(w.Ctx, end), "end")
	}
	cl := shareMember(w, group, kgo.ConsumeTopics(to))
	deliveries := map[string][]int32{}
	for len(deliveries) < 3 || len(deliveries["00010"]) < 5 {
		for _, record := range delivered(w, cl, 1) {
			value := string(record.Value)
			deliveries[value] = append(deliveries[value], record.DeliveryCount())
			if value == "00010" {
				record.Ack(kgo.AckRelease)
			} else {
				record.Ack(kgo.AckAccept)
			}
		}
		w.OK(cl.FlushAcks(w.Ctx), "flush acknowledgements")
	}
	w.Same(deliveries, map[string][]int32{"00010": {1, 2, 3, 4, 5}, "00011": {1}, "00012": {1}}, "deliveries")
	short, cancel := contextFor(w, time.Second)
	defer cancel()
	w.Same(cl.PollRecords(short, 10).NumRecords(), 0, "records after all deliveries")
	start, left := shareOffset(w, admin(w), group, to)
	w.Saw("start %d, lag %d", start, left)
}
