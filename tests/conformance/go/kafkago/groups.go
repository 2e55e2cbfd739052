package main

import (
	"time"

	"github.com/segmentio/kafka-go"
	"odradek/conformance/checks"
)

// classic: two readers of a group share six partitions, commit, and leave.
func classic(w *checks.World) {
	for name, balancer := range map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}} {
		to, group := topic(w, name, 6), w.Topic(name+"-g")
		written(w, to, 0, 60)
		config := kafka.ReaderConfig{
			GroupID: group, Topic: to, GroupBalancers: []kafka.GroupBalancer{balancer}, StartOffset: kafka.FirstOffset,
			HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, JoinGroupBackoff: 100 * time.Millisecond,
		}
		one := reader(w, config)
		w.Same(read(w, one, 60), each(0, 60), "records of the group")
		two := reader(w, config)
		w.Until("the group has two members", func() bool {
			g := described(w, group)
			if g.GroupState != "Stable" || len(g.Members) != 2 {
				return false
			}
			for _, m := range g.Members {
				w.Same(len(m.MemberAssignments.Topics[0].Partitions), 3, "partitions of a member")
			}
			return true
		})
		w.OK(two.Close(), "leave")
		written(w, to, 60, 12)
		w.Same(read(w, one, 12), each(60, 12), "records of who is left")
		w.OK(one.Close(), "leave")
		w.Until("the group is empty", func() bool { return described(w, group).GroupState == "Empty" })
		committed, err := client(w).OffsetFetch(w.Ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{to: {0, 1, 2, 3, 4, 5}}})
		w.OK(err, "fetch offsets")
		sum := int64(0)
		for _, partition := range committed.Topics[to] {
			sum += partition.CommittedOffset
		}
		w.Same(sum, int64(72), "committed offsets")
		removed(w, group)
	}
}

func described(w *checks.World, group string) kafka.DescribeGroupsResponseGroup {
	found, err := client(w).DescribeGroups(w.Ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	w.OK(err, "describe groups")
	return found.Groups[0]
}

func removed(w *checks.World, group string) {
	for _, expected := range []string{"none", "again"} {
		gone, err := client(w).DeleteGroups(w.Ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
		w.OK(err, "delete groups")
		w.Saw("deleted (%s): %s", expected, checks.Or(gone.Errors[group]))
	}
}

// offsets: a group that no member ever joined.
func offsets(w *checks.World) {
	to, group := topic(w, "o", 2), w.Topic("g")
	done, err := client(w).OffsetCommit(w.Ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{to: {{Partition: 0, Offset: 3, Metadata: "noted"}}},
	})
	w.OK(err, "commit")
	w.OK(done.Topics[to][0].Error, "commit")
	found, err := client(w).OffsetFetch(w.Ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{to: {0, 1}}})
	w.OK(err, "fetch offsets")
	for _, one := range found.Topics[to] {
		w.Saw("offset of %d: %d %q %s", one.Partition, one.CommittedOffset, one.Metadata, checks.Or(one.Error))
	}
	gone, err := client(w).OffsetDelete(w.Ctx, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{to: {0, 9}}})
	w.OK(err, "delete offsets")
	for _, one := range gone.Topics[to] {
		w.Saw("delete the offset of %d: %s", one.Partition, checks.Or(one.Error))
	}
	listed, err := client(w).ListGroups(w.Ctx, &kafka.ListGroupsRequest{})
	w.OK(err, "list groups")
	w.Saw("listed: %t", len(listed.Groups) > 0)
	removed(w, group)
}

// transactions: offsets of a transaction are there once it is committed, request by request.
func transactions(w *checks.World) {
	to, group, id := topic(w, "t", 1), w.Topic("g"), w.Topic("id")
	cl := client(w)
	for _, committed := range []bool{false, true} {
		begun, err := cl.InitProducerID(w.Ctx, &kafka.InitProducerIDRequest{
			TransactionalID: id, TransactionTimeoutMs: 30_000, ProducerID: -1, ProducerEpoch: -1,
		})
		w.OK(err, "init producer id")
		w.OK(begun.Error, "init producer id")
		producer, epoch := begun.Producer.ProducerID, begun.Producer.ProducerEpoch
		added, err := cl.AddPartitionsToTxn(w.Ctx, &kafka.AddPartitionsToTxnRequest{
			TransactionalID: id, ProducerID: producer, ProducerEpoch: epoch, Topics: map[string][]kafka.AddPartitionToTxn{to: {{Partition: 0}}},
		})
		w.OK(err, "add partitions")
		w.OK(added.Topics[to][0].Error, "add partitions")
		offsets, err := cl.AddOffsetsToTxn(w.Ctx, &kafka.AddOffsetsToTxnRequest{TransactionalID: id, ProducerID: producer, ProducerEpoch: epoch, GroupID: group})
		w.OK(err, "add offsets")
		w.OK(offsets.Error, "add offsets")
		noted, err := cl.TxnOffsetCommit(w.Ctx, &kafka.TxnOffsetCommitRequest{
			TransactionalID: id, ProducerID: producer, ProducerEpoch: epoch, GroupID: group, GenerationID: -1,
			Topics: map[string][]kafka.TxnOffsetCommit{to: {{Partition: 0, Offset: 5}}},
		})
		w.OK(err, "commit offsets")
		w.OK(noted.Topics[to][0].Error, "commit offsets")
		ended, err := cl.EndTxn(w.Ctx, &kafka.EndTxnRequest{TransactionalID: id, ProducerID: producer, ProducerEpoch: epoch, Committed: committed})
		w.OK(err, "end")
		w.OK(ended.Error, "end")
		stale, err := cl.EndTxn(w.Ctx, &kafka.EndTxnRequest{TransactionalID: id, ProducerID: producer, ProducerEpoch: epoch - 1, Committed: committed})
		w.OK(err, "end with an old epoch")
		w.Saw("an old epoch: %s", checks.Or(stale.Error))
		expected := map[bool]int64{false: -1, true: 5}[committed]
		w.Until("the offset is as the transaction ended", func() bool {
			found, err := cl.OffsetFetch(w.Ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{to: {0}}})
			w.OK(err, "fetch offsets")
			return found.Topics[to][0].CommittedOffset == expected
		})
	}
}
