package main

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"odradek/conformance/checks"
)

// older: a client that speaks as to an older Kafka writes, reads in a group, commits, and ends transactions.
func older(w *checks.World) {
	for name, versions := range map[string]*kversion.Versions{
		"2.1": kversion.V2_1_0(), "2.3": kversion.V2_3_0(), "2.4": kversion.V2_4_0(), "2.5": kversion.V2_5_0(),
		"2.6": kversion.V2_6_0(), "2.8": kversion.V2_8_0(), "3.0": kversion.V3_0_0(), "3.3": kversion.V3_3_0(),
		"3.6": kversion.V3_6_0(), "3.9": kversion.V3_9_0(), "4.0": kversion.V4_0_0(), "4.2": kversion.V4_2_0(),
	} {
		to := topic(w, name, 3)
		as := kgo.MaxVersions(versions)
		written(w, client(w, as), to, 0, 30)
		cl := client(w, as, kgo.TransactionalID(w.Topic(name)))
		for n, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
			w.OK(cl.BeginTransaction(), "begin as "+name)
			written(w, cl, to, 30+n*10, 10)
			w.OK(cl.EndTransaction(w.Ctx, end), "end as "+name)
		}
		for _, balancer := range []kgo.GroupBalancer{kgo.CooperativeStickyBalancer(), kgo.RangeBalancer()} {
			in := w.Topic(name + balancer.ProtocolName())
			one := join(w, in, as, kgo.ConsumeTopics(to), kgo.Balancers(balancer), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
			w.Same(read(w, one.Client, 40), each(0, 40), "records as "+name)
			w.OK(one.CommitUncommittedOffsets(w.Ctx), "commit as "+name)
			w.Same(len(one.CommittedOffsets()[to]), 3, "partitions with an offset")
			one.LeaveGroup()
		}
	}
}
