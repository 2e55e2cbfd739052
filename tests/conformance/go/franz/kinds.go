package main

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

// kinds: topics whose configs refuse some of what is produced.
func kinds(w *checks.World) {
	for _, setting := range []string{
		"cleanup.policy=compact", "message.timestamp.type=LogAppendTime", "max.message.bytes=500", "compression.type=gzip",
		"message.timestamp.before.max.ms=1000", "min.insync.replicas=2",
	} {
		config, value, _ := strings.Cut(setting, "=")
		to := w.Topic(config)
		_, err := admin(w).CreateTopic(w.Ctx, 1, 1, map[string]*string{config: &value}, to)
		w.OK(err, "create")
		for what, record := range map[string]*kgo.Record{
			"plain":  {Topic: to, Key: []byte("k"), Value: []byte("v")},
			"no key": {Topic: to, Value: []byte("v")},
			"large":  {Topic: to, Key: []byte("k"), Value: make([]byte, 1000)},
			"old":    {Topic: to, Key: []byte("k"), Timestamp: time.Now().Add(-time.Hour)},
			"future": {Topic: to, Key: []byte("k"), Timestamp: time.Now().Add(3 * time.Hour)},
		} {
			cl := client(w, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.UnknownTopicRetries(20))
			w.Saw("%s, %s: %s", setting, what, checks.Or(cl.ProduceSync(w.Ctx, record).FirstErr()))
		}
	}
}

// expired: a transaction beyond its time is aborted, its producer is told, and goes on.
func expired(w *checks.World) {
	to, id := topic(w, "e", 1), w.Topic("id")
	cl := client(w, kgo.TransactionalID(id), kgo.TransactionTimeout(time.Second))
	w.OK(cl.BeginTransaction(), "begin")
	written(w, cl, to, 0, 5)
	w.Until("the transaction is aborted", func() bool { return stateOf(w, id) == "CompleteAbort" })
	w.Is(cl.ProduceSync(w.Ctx, numbered(to, 5, 1)...).FirstErr(), kerr.InvalidProducerEpoch, "produce afterwards")
	w.Is(cl.EndTransaction(w.Ctx, kgo.TryCommit), kerr.OperationNotAttempted, "commit afterwards")
	w.OK(cl.EndTransaction(w.Ctx, kgo.TryAbort), "abort afterwards")
	w.OK(cl.BeginTransaction(), "begin again")
	written(w, cl, to, 10, 5)
	w.OK(cl.EndTransaction(w.Ctx, kgo.TryCommit), "commit again")
	careful := client(w, kgo.ConsumeTopics(to), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	w.Same(read(w, careful, 5), each(10, 5), "records after the expiry")
}
