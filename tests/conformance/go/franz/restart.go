package main

import (
	"bufio"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

// restart: a producer and a group go on while the broker is killed and comes back, and nothing is lost or doubled.
//
// It prints `restart` when both are at work, and waits for a line on standard input.
func restart(w *checks.World) {
	const count = 2_000
	to, group := topic(w, "r", 3), w.Topic("g")
	producer := client(w, kgo.UnknownTopicRetries(-1))
	var acknowledged atomic.Int64
	go_on := make(chan bool)
	failures := make(chan error, count)
	go func() {
		for n, record := range numbered(to, 0, count) {
			if n == count/2 {
				<-go_on
			}
			producer.Produce(w.Ctx, record, func(_ *kgo.Record, err error) {
				if err != nil {
					failures <- err
				}
				acknowledged.Add(1)
			})
		}
	}()
	reader := client(w, kgo.ConsumerGroup(group), kgo.ConsumeTopics(to), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	values := map[string]int{}
	poll := func() {
		reader.PollFetches(w.Ctx).EachRecord(func(r *kgo.Record) { values[string(r.Value)]++ })
		w.OK(w.Ctx.Err(), fmt.Sprintf("%d of %d records", len(values), count))
	}
	for len(values) < count/4 {
		poll()
	}
	fmt.Println("restart")
	close(go_on)
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	w.OK(err, "wait for the broker")
	for len(values) < count {
		poll()
	}
	w.OK(producer.Flush(w.Ctx), "flush")
	select {
	case err := <-failures:
		w.Fail("a record is lost: %v", err)
	default:
	}
	w.Same(values, each(0, count), "records")
	w.OK(reader.CommitUncommittedOffsets(w.Ctx), "commit")
	found, err := admin(w).FetchOffsets(w.Ctx, group)
	w.OK(err, "fetch offsets")
	committed := int64(0)
	found.Each(func(one kadm.OffsetResponse) { committed += one.At })
	w.Same(committed, int64(count), "committed offsets")
}
