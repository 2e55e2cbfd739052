package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

// A member of a group and what it has, by its callbacks.
type member struct {
	*kgo.Client
	lock sync.Mutex
	has  map[string]bool
}

func join(w *checks.World, group string, options ...kgo.Opt) *member {
	m := &member{has: map[string]bool{}}
	options = append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.DisableAutoCommit(), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.SessionTimeout(6 * time.Second), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ ctx, _ *kgo.Client, parts map[string][]int32) { m.set(parts, true) }),
		kgo.OnPartitionsRevoked(func(_ ctx, _ *kgo.Client, parts map[string][]int32) { m.set(parts, false) }),
		kgo.OnPartitionsLost(func(_ ctx, _ *kgo.Client, parts map[string][]int32) { m.set(parts, false) }),
	}, options...)
	m.Client = client(w, options...)
	return m
}

func (m *member) set(parts map[string][]int32, has bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for topic, numbers := range parts {
		for _, number := range numbers {
			key := fmt.Sprint(topic, "-", number)
			if has {
				m.has[key] = true
			} else {
				delete(m.has, key)
			}
		}
	}
}

func (m *member) count() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return len(m.has)
}

// classic: two members of a cooperative-sticky group share six partitions, commit, and leave.
func classic(w *checks.World) {
	to, group := topic(w, "c", 6), w.Topic("g")
	written(w, client(w), to, 0, 60)
	balancer := kgo.Balancers(kgo.CooperativeStickyBalancer())
	one := join(w, group, kgo.ConsumeTopics(to), balancer)
	w.Same(read(w, one.Client, 60), each(0, 60), "records of the group")
	w.OK(one.CommitUncommittedOffsets(w.Ctx), "commit")
	two := join(w, group, kgo.ConsumeTopics(to), balancer)
	w.Until("each member has three", func() bool { return one.count() == 3 && two.count() == 3 })
	adm := admin(w)
	found, err := adm.DescribeGroups(w.Ctx, group)
	w.OK(err, "describe groups")
	g := found[group]
	w.Saw("%s %s %s, %d members, error %s", g.State, g.ProtocolType, g.Protocol, len(g.Members), checks.Or(g.Err))
	listed, err := adm.ListGroupsByType(w.Ctx, []string{"classic"}, "Stable")
	w.OK(err, "list groups")
	w.Saw("listed as %s %s %s", listed[group].GroupType, listed[group].ProtocolType, listed[group].State)
	w.Same(lag(w, group), int64(0), "lag")
	written(w, client(w), to, 60, 12)
	w.Same(lag(w, group), int64(12), "lag")
	two.LeaveGroup()
	w.Until("one has all", func() bool { return one.count() == 6 })
	w.Is(admErr(adm.DeleteGroup(w.Ctx, group)), kerr.NonEmptyGroup, "delete a group with members")
	one.LeaveGroup()
	ended(w, adm, group, to)
}

func admErr(found kadm.DeleteGroupResponse, err error) error {
	if err != nil {
		return err
	}
	return found.Err
}

// ended takes an empty group apart: its offsets one by one, then itself.
func ended(w *checks.World, adm *kadm.Client, group, to string) {
	w.Until("the group is empty", func() bool {
		listed, err := adm.ListGroups(w.Ctx)
		return err == nil && listed[group].State == "Empty"
	})
	var set kadm.TopicsSet
	set.Add(to, 0)
	_, err := adm.DeleteOffsets(w.Ctx, group, set)
	w.OK(err, "delete an offset")
	offsets, err := adm.FetchOffsets(w.Ctx, group)
	w.OK(err, "fetch offsets")
	_, still := offsets.Lookup(to, 0)
	w.Same(still, false, "the deleted offset is there")
	w.OK(admErr(adm.DeleteGroup(w.Ctx, group)), "delete a group")
	w.Is(admErr(adm.DeleteGroup(w.Ctx, group)), kerr.GroupIDNotFound, "delete a group again")
	_, err = adm.DescribeGroups(w.Ctx, group)
	w.OK(err, "describe a group that is gone")
}

// static: a member with an instance id comes back to what it had, is fenced by a twin, and is removed by an admin.
func static(w *checks.World) {
	to, group := topic(w, "s", 4), w.Topic("g")
	written(w, client(w), to, 0, 40)
	options := []kgo.Opt{kgo.ConsumeTopics(to), kgo.InstanceID("i-1"), kgo.Balancers(kgo.CooperativeStickyBalancer())}
	one := join(w, group, options...)
	read(w, one.Client, 40)
	w.OK(one.CommitUncommittedOffsets(w.Ctx), "commit")
	one.Close()
	again := join(w, group, options...)
	w.Until("the member is back", func() bool { return again.count() == 4 })
	adm := admin(w)
	found, err := adm.DescribeGroups(w.Ctx, group)
	w.OK(err, "describe groups")
	w.Same(len(found[group].Members), 1, "members")
	w.Same(*found[group].Members[0].InstanceID, "i-1", "instance id")
	twin := join(w, group, options...)
	w.Until("the twin has all", func() bool { return twin.count() == 4 })
	w.Saw("the one before: %s", firstOutcome(w, again.Client))
	twin.Close()
	left, err := adm.LeaveGroup(w.Ctx, kadm.LeaveGroup(group).InstanceIDs("i-1", "i-2").Reason("a check"))
	w.OK(err, "remove members")
	for _, id := range []string{"i-1", "i-2"} {
		w.Saw("remove %s: %s", id, checks.Or(left[id].Err))
	}
	ended(w, adm, group, to)
}
