package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

// transactions: committed records are read, aborted ones are not, and the broker describes what is open.
func transactions(w *checks.World) {
	to, id := topic(w, "t", 2), w.Topic("id")
	cl := client(w, kgo.TransactionalID(id), kgo.TransactionTimeout(30*time.Second))
	for n, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		w.OK(cl.BeginTransaction(), "begin")
		written(w, cl, to, n*10, 10)
		if n == 2 {
			described(w, to, id)
		}
		w.OK(cl.EndTransaction(w.Ctx, end), "end")
	}
	committed := each(0, 10)
	for value := range each(20, 10) {
		committed[value] = 1
	}
	careful := client(w, kgo.ConsumeTopics(to), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	w.Same(read(w, careful, 20), committed, "committed records")
	w.Same(read(w, client(w, kgo.ConsumeTopics(to)), 30), each(0, 30), "all records")
	w.OK(cl.BeginTransaction(), "begin an empty one")
	w.OK(cl.EndTransaction(w.Ctx, kgo.TryCommit), "commit an empty one")
	w.Until("the transaction is complete", func() bool { return stateOf(w, id) == "CompleteCommit" })
}

func stateOf(w *checks.World, id string) string {
	found, err := admin(w).DescribeTransactions(w.Ctx, id)
	w.OK(err, "describe transactions")
	return found[id].State
}

// described asks what is open in each way that there is.
func described(w *checks.World, to, id string) {
	adm := admin(w)
	found, err := adm.DescribeTransactions(w.Ctx, id)
	w.OK(err, "describe transactions")
	one := found[id]
	topics := one.Topics.Sorted()
	w.Saw("%s, %d ms, %v, error %s", one.State, one.TimeoutMillis, topics, checks.Or(one.Err))
	listed, err := adm.ListTransactions(w.Ctx, []int64{one.ProducerID}, []string{"Ongoing"})
	w.OK(err, "list transactions")
	w.Same(listed[id].State, "Ongoing", "state of the listed transaction")
	listed, err = adm.ListTransactionsByTxPattern(w.Ctx, nil, nil, "^"+id+"$")
	w.OK(err, "list transactions by pattern")
	w.Same(len(listed), 1, "transactions of a pattern")
	_, err = adm.ListTransactionsByTxPattern(w.Ctx, nil, nil, "(")
	w.Saw("a bad pattern: %s", checks.Or(err))
	var set kadm.TopicsSet
	set.Add(to, 0, 1)
	producers, err := adm.DescribeProducers(w.Ctx, set)
	w.OK(err, "describe producers")
	for _, p := range producers.SortedProducers() {
		w.Same(p.ProducerID, one.ProducerID, "producer id")
		w.Saw("partition %d: last sequence %d, coordinator epoch %d, open from %d", p.Partition, p.LastSequence,
			p.CoordinatorEpoch, p.CurrentTxnStartOffset)
	}
	missing, err := adm.DescribeTransactions(w.Ctx, w.Topic("nobody"))
	w.OK(err, "describe transactions")
	w.Saw("an unknown id: %s", checks.Or(missing[w.Topic("nobody")].Err))
	coordinators := adm.FindTxnCoordinators(w.Ctx, id)
	w.OK(coordinators.Error(), "find the coordinator")
}

// fencing: a second producer of the same id ends the first one.
func fencing(w *checks.World) {
	to, id := topic(w, "f", 1), w.Topic("id")
	first := client(w, kgo.TransactionalID(id))
	w.OK(first.BeginTransaction(), "begin")
	written(w, first, to, 0, 5)
	second := client(w, kgo.TransactionalID(id))
	w.OK(second.BeginTransaction(), "begin")
	written(w, second, to, 10, 5)
	err := first.ProduceSync(w.Ctx, numbered(to, 5, 1)...).FirstErr()
	if err == nil {
		err = first.EndTransaction(w.Ctx, kgo.TryCommit)
	}
	w.Saw("the first producer: %s", checks.Or(err))
	w.Same(errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced), true, "fenced")
	w.OK(second.EndTransaction(w.Ctx, kgo.TryCommit), "commit")
	careful := client(w, kgo.ConsumeTopics(to), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	w.Same(read(w, careful, 5), each(10, 5), "records of the second producer")
	late := client(w, kgo.TransactionalID(w.Topic("too-long")), kgo.TransactionTimeout(time.Hour))
	w.Is(late.BeginTransaction(), kerr.InvalidTransactionTimeout, "a time-out beyond the broker's")
}

// exactlyOnce: two sessions move records from one topic to another, abort now and then, and lose and double none.
func exactlyOnce(w *checks.World) {
	from, to, group := topic(w, "from", 4), topic(w, "to", 2), w.Topic("g")
	written(w, client(w), from, 0, 400)
	left := make(chan string, 2)
	for n := range 2 {
		session, err := kgo.NewGroupTransactSession(
			kgo.SeedBrokers(w.Broker), kgo.TransactionalID(fmt.Sprint(group, n)), kgo.ConsumerGroup(group),
			kgo.ConsumeTopics(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(),
			kgo.FetchMaxWait(200*time.Millisecond), kgo.FetchMaxPartitionBytes(1000), kgo.MetadataMinAge(minAge),
		)
		w.OK(err, "a session")
		w.Later(session.Close)
		go func() { left <- moved(w, session, to) }()
	}
	careful := client(w, kgo.ConsumeTopics(to), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	w.Same(read(w, careful, 400), each(0, 400), "moved records")
	select {
	case why := <-left:
		w.Fail("a session ended: %s", why)
	default:
	}
	w.Until("the offsets are committed", func() bool { return lag(w, group) == 0 })
}

// moved runs a session until the check ends; every third transaction is aborted.
func moved(w *checks.World, session *kgo.GroupTransactSession, to string) string {
	for n := 0; ; n++ {
		fetches := session.PollRecords(w.Ctx, 40)
		if fetches.IsClientClosed() || w.Ctx.Err() != nil {
			return "closed"
		}
		if err := session.Begin(); err != nil {
			return err.Error()
		}
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(w.Ctx, &kgo.Record{Topic: to, Key: r.Key, Value: r.Value}, nil)
		})
		if _, err := session.End(w.Ctx, kgo.TransactionEndTry(n%3 != 2)); err != nil {
			return err.Error()
		}
	}
}

// lag is that of a whole group of the classic protocol, -1 where it is not known.
func lag(w *checks.World, group string) int64 {
	found, err := admin(w).Lag(w.Ctx, group)
	w.OK(err, "lag")
	one := found[group]
	if one.Error() != nil {
		return -1
	}
	return one.Lag.Total()
}
