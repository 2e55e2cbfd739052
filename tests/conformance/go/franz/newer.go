package main

import (
	"context"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

type ctx = context.Context

// consumer: two members of a group of the new protocol, with the broker's assignors, share partitions and commit.
func consumer(w *checks.World) {
	for assignor, balancer := range map[string]kgo.GroupBalancer{"uniform": kgo.StickyBalancer(), "range": kgo.RangeBalancer()} {
		to, group := topic(w, assignor, 6), w.Topic(assignor+"-g")
		written(w, client(w), to, 0, 60)
		options := []kgo.Opt{kgo.ConsumeTopics(to), kgo.ServerSideBalancer(), kgo.Balancers(balancer), kgo.Rack("r1")}
		one := join(w, group, options...)
		w.Same(read(w, one.Client, 60), each(0, 60), "records of the group")
		w.OK(one.CommitUncommittedOffsets(w.Ctx), "commit")
		two := join(w, group, options...)
		w.Until("each member has three", func() bool { return one.count() == 3 && two.count() == 3 })
		adm := admin(w)
		g := stable(w, adm, group)
		w.Same(g.AssignorName, assignor, "assignor")
		w.Same(len(g.Members), 2, "members")
		for _, m := range g.Members {
			w.Same(len(m.Assignment[to]), 3, "partitions of a member")
			w.Same(*m.RackID, "r1", "rack")
			w.Same(m.MemberType, int8(1), "type of a member")
		}
		listed, err := adm.ListGroupsByType(w.Ctx, []string{"consumer"}, "stable")
		w.OK(err, "list groups")
		w.Saw("listed as %s %s %s", listed[group].GroupType, listed[group].ProtocolType, listed[group].State)
		classicView, err := adm.DescribeGroups(w.Ctx, group)
		w.OK(err, "describe groups")
		w.Saw("as a classic group: %s, error %s", classicView[group].State, checks.Or(classicView[group].Err))
		byID(w, adm, group, to)
		lags, err := adm.Lag(w.Ctx, group)
		w.OK(err, "lag")
		of := lags[group]
		w.Saw("lag: %s, error %s", of.State, checks.Or(of.Error()))
		_, err = adm.CreatePartitions(w.Ctx, 2, to)
		w.OK(err, "create partitions")
		w.Until("each member has four", func() bool { return one.count() == 4 && two.count() == 4 })
		two.LeaveGroup()
		w.Until("one has all", func() bool { return one.count() == 8 })
		one.LeaveGroup()
		ended(w, adm, group, to)
	}
}

// byID commits and fetches offsets by the topic's id.
func byID(w *checks.World, adm *kadm.Client, group, to string) {
	offsets, err := adm.FetchOffsetsByID(w.Ctx, group)
	w.OK(err, "fetch offsets by id")
	w.Same(len(offsets), 1, "topics with offsets")
	_, err = adm.FetchOffsetsForTopics(w.Ctx, group, to)
	w.OK(err, "fetch offsets of topics")
	var set kadm.Offsets
	set.AddOffset(to, 0, 1, -1)
	committed, err := adm.CommitOffsets(w.Ctx, group, set)
	w.OK(err, "commit from outside")
	one, _ := committed.Lookup(to, 0)
	w.Saw("a commit from outside: %s", checks.Or(one.Err))
}

func stable(w *checks.World, adm *kadm.Client, group string) kadm.DescribedConsumerGroup {
	var found kadm.DescribedConsumerGroup
	w.Until("the group is stable", func() bool {
		all, err := adm.DescribeConsumerGroups(w.Ctx, group)
		w.OK(err, "describe consumer groups")
		found = all[group]
		return found.State == "Stable"
	})
	return found
}

// consumerStatic: a static member of the new protocol keeps its twin out, until an admin removes it.
func consumerStatic(w *checks.World) {
	to, group := topic(w, "s", 4), w.Topic("g")
	written(w, client(w), to, 0, 40)
	options := []kgo.Opt{kgo.ConsumeTopics(to), kgo.InstanceID("i-1"), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
	one := join(w, group, options...)
	read(w, one.Client, 40)
	w.OK(one.CommitUncommittedOffsets(w.Ctx), "commit")
	adm := admin(w)
	w.Same(*stable(w, adm, group).Members[0].InstanceID, "i-1", "instance id")
	twin := client(w, append(options, kgo.ConsumerGroup(group))...)
	w.Same(firstOutcome(w, twin), "unable to join group session: UNRELEASED_INSTANCE_ID", "a twin")
	twin.Close()
	// franz-go 1.22 leaves for a while without its instance id, which is an error.
	w.Is(one.LeaveGroupContext(w.Ctx), kerr.InvalidRequest, "leave for a while")
	left, err := adm.LeaveGroup(w.Ctx, kadm.LeaveGroup(group).InstanceIDs("i-1", "i-2"))
	w.OK(err, "remove members")
	w.Saw("remove i-1: %s, i-2: %s", checks.Or(left["i-1"].Err), checks.Or(left["i-2"].Err))
	again := join(w, group, options...)
	w.Until("a new member has all", func() bool { return again.count() == 4 })
	written(w, client(w), to, 40, 8)
	w.Same(read(w, again.Client, 8), each(40, 8), "records after the return")
	_, err = adm.LeaveGroup(w.Ctx, kadm.LeaveGroup(group).InstanceIDs("i-1"))
	w.OK(err, "remove members")
}

// consumerRegex: the broker resolves a pattern, also to topics that come later; one that it cannot read is an error.
func consumerRegex(w *checks.World) {
	prefix, group := regexp.QuoteMeta(w.Topic("r")), w.Topic("g")
	first := topic(w, "r", 2)
	options := []kgo.Opt{
		kgo.ConsumeTopics("^" + prefix + ".*"), kgo.ConsumeRegex(), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
		kgo.MetadataMaxAge(time.Second),
	}
	one := join(w, group, options...)
	written(w, client(w), first, 0, 10)
	w.Same(read(w, one.Client, 10), each(0, 10), "records of the first topic")
	second := w.Topic("r") + "-later"
	adm := admin(w)
	_, err := adm.CreateTopic(w.Ctx, 2, 1, nil, second)
	w.OK(err, "create")
	written(w, client(w), second, 10, 10)
	w.Same(read(w, one.Client, 10), each(10, 10), "records of the later topic")
	g := stable(w, adm, group)
	w.Saw("topics %v, pattern %q", g.Members[0].SubscribedTopics, *g.Members[0].SubscribedTopicRegex)
	two := join(w, group, options...)
	w.Until("each member has two", func() bool { return one.count() == 2 && two.count() == 2 })
	_, err = adm.DeleteTopic(w.Ctx, second)
	w.OK(err, "delete")
	w.Until("each member has one", func() bool { return one.count() == 1 && two.count() == 1 })
}

// upgrade: a classic group becomes one of the new protocol member by member, and goes back.
func upgrade(w *checks.World) {
	to, group := topic(w, "u", 4), w.Topic("g")
	written(w, client(w), to, 0, 40)
	old := []kgo.Opt{kgo.ConsumeTopics(to), kgo.Balancers(kgo.CooperativeStickyBalancer())}
	fresh := []kgo.Opt{kgo.ConsumeTopics(to), kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
	one := join(w, group, old...)
	read(w, one.Client, 40)
	w.OK(one.CommitUncommittedOffsets(w.Ctx), "commit")
	two := join(w, group, fresh...)
	w.Until("each member has two", func() bool { return one.count() == 2 && two.count() == 2 })
	g := stable(w, admin(w), group)
	types := map[int8]int{}
	for _, m := range g.Members {
		types[m.MemberType]++
	}
	w.Same(types, map[int8]int{0: 1, 1: 1}, "members of each type")
	one.LeaveGroup()
	w.Until("two has all", func() bool { return two.count() == 4 })
	three := join(w, group, old...)
	w.Until("each member has two", func() bool { return two.count() == 2 && three.count() == 2 })
	two.LeaveGroup()
	w.Until("three has all", func() bool { return three.count() == 4 })
	written(w, client(w), to, 40, 8)
	w.Same(read(w, three.Client, 8), each(40, 8), "records after the way back")
	listed, err := admin(w).ListGroups(w.Ctx)
	w.OK(err, "list groups")
	w.Saw("in the end: %s %s", listed[group].GroupType, listed[group].State)
}
