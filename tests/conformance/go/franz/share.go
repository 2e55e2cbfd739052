package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"odradek/conformance/checks"
)

// configured sets configs of a group, which begin with those of a share group that reads from the start.
func configured(w *checks.World, group string, more map[string]string) {
	req := kmsg.NewIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range more {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, &value
		resource.Configs = append(resource.Configs, config)
	}
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(w.Ctx, client(w))
	w.OK(err, "alter configs of a group")
	w.Same(resp.Resources[0].ErrorCode, int16(0), "error of altering configs of a group")
}

var fromStart = map[string]string{"share.auto.offset.reset": "earliest"}

// member of a share group; its acknowledgements must all succeed.
func shareMember(w *checks.World, group string, options ...kgo.Opt) *kgo.Client {
	options = append(options, kgo.ShareGroup(group), kgo.ShareAckCallback(func(_ *kgo.Client, rs kgo.ShareAckResults) {
		if err := rs.Error(); err != nil {
			panic(err)
		}
	}))
	return client(w, options...)
}

// delivered polls until so many records came.
func delivered(w *checks.World, cl *kgo.Client, count int) []*kgo.Record {
	var found []*kgo.Record
	for len(found) < count {
		fetches := cl.PollFetches(w.Ctx)
		w.OK(fetches.Err(), fmt.Sprintf("poll (%d of %d are here)", len(found), count))
		found = append(found, fetches.Records()...)
	}
	return found
}

// share: accept, release, reject and renew; each record comes back or does not.
func share(w *checks.World) {
	to, group := topic(w, "s", 1), w.Topic("g")
	configured(w, group, fromStart)
	cl := shareMember(w, group, kgo.ConsumeTopics(to), kgo.ShareMaxRecords(4), kgo.ShareMaxRecordsStrict())
	written(w, client(w), to, 0, 4)
	found := delivered(w, cl, 4)
	for n, ack := range []kgo.AckStatus{kgo.AckAccept, kgo.AckRelease, kgo.AckReject, kgo.AckRenew} {
		w.Same(found[n].DeliveryCount(), int32(1), "first delivery")
		w.Same(found[n].AcquisitionDeadline().After(time.Now()), true, "the lock lasts")
		found[n].Ack(ack)
	}
	w.OK(cl.FlushAcks(w.Ctx), "flush acknowledgements")
	found[3].Ack(kgo.AckRelease)
	w.OK(cl.FlushAcks(w.Ctx), "flush acknowledgements")
	back := delivered(w, cl, 2)
	w.Same([]int64{back[0].Offset, back[1].Offset}, []int64{1, 3}, "offsets that came back")
	for _, record := range back {
		w.Same(record.DeliveryCount(), int32(2), "second delivery")
	}
	cl.MarkAcks(kgo.AckAccept)
	w.OK(cl.FlushAcks(w.Ctx), "flush acknowledgements")
	adm := admin(w)
	g, err := adm.DescribeShareGroups(w.Ctx, group)
	w.OK(err, "describe share groups")
	w.Saw("%s, assignor %s, %d members, topics %v", g[group].GroupState, g[group].Assignor, len(g[group].Members), g[group].SubscribedTopics())
	start, left := shareOffset(w, adm, group, to)
	w.Saw("start %d, lag %d", start, left)
	cl.Close()
	w.Until("the group is empty", func() bool {
		g, err := adm.DescribeShareGroups(w.Ctx, group)
		return err == nil && g[group].GroupState == "Empty"
	})
}

// shareOffset returns the start of partition 0 and its lag.
func shareOffset(w *checks.World, adm *kadm.Client, group, to string) (int64, int64) {
	found, err := adm.DescribeShareGroupOffsets(w.Ctx, group)
	w.OK(err, "describe offsets of a share group")
	one, _ := found[group].Offsets.Lookup(to, 0)
	w.OK(one.Err, "offset of a partition")
	return one.StartOffset, one.Lag
}

// shareTwo: two members divide the records of one partition; what one held when it closed goes to the other.
func shareTwo(w *checks.World) {
	to, group := topic(w, "s", 2), w.Topic("g")
	configured(w, group, fromStart)
	members := []*kgo.Client{
		shareMember(w, group, kgo.ConsumeTopics(to), kgo.ShareMaxRecords(10)),
		shareMember(w, group, kgo.ConsumeTopics(to), kgo.ShareMaxRecords(10)),
	}
	producer := client(w)
	values := map[string]int{}
	for n := 0; n < 400 || len(values) < 400; n += 20 {
		if n < 400 {
			written(w, producer, to, n, 20)
		}
		for _, cl := range members {
			short, cancel := contextFor(w, 200*time.Millisecond)
			cl.PollRecords(short, 30).EachRecord(func(r *kgo.Record) { values[string(r.Value)]++ })
			cancel()
		}
	}
	w.Same(values, each(0, 400), "delivered records")
	for _, cl := range members {
		cl.MarkAcks(kgo.AckAccept)
		w.OK(cl.FlushAcks(w.Ctx), "flush acknowledgements")
	}
	written(w, producer, to, 400, 5)
	held := 0
	for held < 5 {
		held += members[0].PollRecords(w.Ctx, 10).NumRecords()
		if held == 0 {
			continue
		}
		break
	}
	members[0].MarkAcks(kgo.AckRelease)
	members[0].Close()
	later := map[string]int{}
	for len(later) < 5 {
		members[1].PollRecords(w.Ctx, 10).EachRecord(func(r *kgo.Record) { later[string(r.Value)] = 1 })
	}
	w.Same(later, each(400, 5), "records of a member that left")
}

// shareOffsets: an admin sets and deletes where an empty share group stands.
func shareOffsets(w *checks.World) {
	to, group := topic(w, "s", 1), w.Topic("g")
	configured(w, group, fromStart)
	adm := admin(w)
	written(w, client(w), to, 0, 10)
	cl := shareMember(w, group, kgo.ConsumeTopics(to))
	delivered(w, cl, 10)
	w.Saw("alter with members: %s", altered(w, adm, group, to, 3))
	cl.MarkAcks(kgo.AckAccept)
	w.OK(cl.FlushAcks(w.Ctx), "flush acknowledgements")
	cl.Close()
	w.Until("offsets can be altered", func() bool { return altered(w, adm, group, to, 7) == "none" })
	start, left := shareOffset(w, adm, group, to)
	w.Saw("after the change: start %d, lag %d", start, left)
	cl = shareMember(w, group, kgo.ConsumeTopics(to))
	found := delivered(w, cl, 3)
	w.Same(found[0].Offset, int64(7), "first record after the change")
	cl.MarkAcks(kgo.AckAccept)
	cl.Close()
	w.Until("offsets can be deleted", func() bool {
		deleted, err := adm.DeleteShareGroupOffsets(w.Ctx, group, to)
		return err == nil && deleted.Ok()
	})
	found2, err := adm.DescribeShareGroupOffsets(w.Ctx, group)
	w.OK(err, "describe offsets of a share group")
	w.Saw("after the deletion: %v, error %s", found2[group].Offsets.Sorted(), checks.Or(found2[group].Err))
	listed, err := adm.ListGroupsByType(w.Ctx, []string{"share"})
	w.OK(err, "list groups")
	w.Saw("listed as %s %q %s", listed[group].GroupType, listed[group].ProtocolType, listed[group].State)
	w.OK(admErr(adm.DeleteGroup(w.Ctx, group)), "delete a share group")
}

func altered(w *checks.World, adm *kadm.Client, group, to string, at int64) string {
	var set kadm.Offsets
	set.AddOffset(to, 0, at, -1)
	found, err := adm.AlterShareGroupOffsets(w.Ctx, group, set)
	if err == nil {
		err = found.Error()
	}
	return checks.Or(err)
}
