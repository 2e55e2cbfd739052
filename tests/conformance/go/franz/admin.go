package main

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"odradek/conformance/checks"
)

// topics: created, described, made larger, emptied and deleted, with the errors of each.
func topics(w *checks.World) {
	adm := admin(w)
	name := w.Topic("t")
	segment := "1048576"
	tried, err := adm.ValidateCreateTopics(w.Ctx, 2, 1, map[string]*string{"segment.bytes": &segment}, name)
	w.OK(err, "validate a creation")
	w.Saw("validated: %d partitions, error %s", tried[name].NumPartitions, checks.Or(tried[name].Err))
	made, err := adm.CreateTopics(w.Ctx, 2, 1, map[string]*string{"segment.bytes": &segment}, name)
	w.OK(err, "create")
	w.Saw("created: %d, %d, segment.bytes %s", made[name].NumPartitions, made[name].ReplicationFactor, *made[name].Configs["segment.bytes"].Value)
	for what, wrong := range map[string]func() (kadm.CreateTopicResponse, error){
		"again":        func() (kadm.CreateTopicResponse, error) { return adm.CreateTopic(w.Ctx, 1, 1, nil, name) },
		"a bad name":   func() (kadm.CreateTopicResponse, error) { return adm.CreateTopic(w.Ctx, 1, 1, nil, "a/b") },
		"3 replicas":   func() (kadm.CreateTopicResponse, error) { return adm.CreateTopic(w.Ctx, 1, 3, nil, w.Topic("x")) },
		"0 partitions": func() (kadm.CreateTopicResponse, error) { return adm.CreateTopic(w.Ctx, 0, 1, nil, w.Topic("x")) },
		"a bad config": func() (kadm.CreateTopicResponse, error) {
			return adm.CreateTopic(w.Ctx, 1, 1, map[string]*string{"retention.ms": kadm.StringPtr("never")}, w.Topic("x"))
		},
	} {
		_, err := wrong()
		w.Saw("%s: %s", what, checks.Or(err))
	}
	found, err := adm.ListTopics(kadm.WithAuthorizedOps(w.Ctx), name, w.Topic("missing"))
	w.OK(err, "list topics")
	w.Saw("%d partitions, operations %v; a missing one: %s", len(found[name].Partitions), found[name].AuthorizedOperations,
		checks.Or(found[w.Topic("missing")].Err))
	grown, err := adm.UpdatePartitions(w.Ctx, 4, name)
	w.OK(err, "create partitions")
	w.OK(grown[name].Err, "create partitions")
	fewer, err := adm.UpdatePartitions(w.Ctx, 3, name)
	w.Saw("fewer partitions: %v %s", checks.Or(err), checks.Or(fewer[name].Err))
	emptied(w, adm, name)
	gone, err := adm.DeleteTopics(w.Ctx, name, w.Topic("missing"))
	w.OK(err, "delete topics")
	w.Saw("deleted: %s, a missing one: %s", checks.Or(gone[name].Err), checks.Or(gone[w.Topic("missing")].Err))
}

// emptied deletes the first records of a partition.
func emptied(w *checks.World, adm *kadm.Client, name string) {
	cl := client(w, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.OK(cl.ProduceSync(w.Ctx, numbered(name, 0, 10)...).FirstErr(), "produce")
	for _, at := range []int64{4, 11, -1, 5} {
		var set kadm.Offsets
		set.AddOffset(name, 0, at, -1)
		found, err := adm.DeleteRecords(w.Ctx, set)
		w.OK(err, "delete records")
		one, _ := found.Lookup(name, 0)
		w.Saw("delete records before %d: low watermark %d, error %s", at, one.LowWatermark, checks.Or(one.Err))
	}
	request := kadm.OffsetForLeaderEpochRequest{}
	request.Add(name, 0, 0)
	request.Add(name, 1, 7)
	ends, err := adm.OffsetForLeaderEpoch(w.Ctx, request)
	w.OK(err, "offset for leader epoch")
	for n := range int32(2) {
		one := ends[name][n]
		w.Saw("end of an epoch: %d at %d, error %s", one.LeaderEpoch, one.EndOffset, checks.Or(one.Err))
	}
}

// configs: of topics, brokers and groups, altered step by step and as a whole.
func configs(w *checks.World) {
	adm := admin(w)
	name := topic(w, "c", 1)
	change := func(op kadm.IncrementalOp, name, value string) kadm.AlterConfig {
		return kadm.AlterConfig{Op: op, Name: name, Value: &value}
	}
	for _, step := range [][]kadm.AlterConfig{
		{change(kadm.SetConfig, "retention.ms", "1000000"), change(kadm.SetConfig, "cleanup.policy", "compact")},
		{change(kadm.AppendConfig, "cleanup.policy", "delete")},
		{change(kadm.SubtractConfig, "cleanup.policy", "compact"), {Op: kadm.DeleteConfig, Name: "retention.ms"}},
		{change(kadm.SetConfig, "retention.ms", "x")},
		{change(kadm.SetConfig, "no.such.config", "x")},
		{change(kadm.AppendConfig, "retention.ms", "1")},
	} {
		tried, err := adm.ValidateAlterTopicConfigs(w.Ctx, step, name)
		w.OK(err, "validate configs")
		done, err := adm.AlterTopicConfigs(w.Ctx, step, name)
		w.OK(err, "alter configs")
		w.Saw("validated %s, altered %s: %s", checks.Or(tried[0].Err), checks.Or(done[0].Err), shown(w, adm, name))
	}
	done, err := adm.AlterTopicConfigsState(w.Ctx, []kadm.AlterConfig{{Name: "max.message.bytes", Value: kadm.StringPtr("2000000")}}, name)
	w.OK(err, "alter configs as a whole")
	w.Saw("as a whole: %s: %s", checks.Or(done[0].Err), shown(w, adm, name))
	brokers, err := adm.DescribeBrokerConfigs(w.Ctx, 1)
	w.OK(err, "describe a broker")
	w.Saw("a broker: error %s, %v", checks.Or(brokers[0].Err), len(brokers[0].Configs) > 50)
	dynamic, err := adm.AlterBrokerConfigs(w.Ctx, []kadm.AlterConfig{change(kadm.SetConfig, "log.retention.ms", "86400000")})
	w.OK(err, "alter configs of all brokers")
	w.Saw("of all brokers: %s", checks.Or(dynamic[0].Err))
	dynamic, err = adm.AlterBrokerConfigs(w.Ctx, []kadm.AlterConfig{{Op: kadm.DeleteConfig, Name: "log.retention.ms"}})
	w.OK(err, "alter configs of all brokers")
	w.Saw("of all brokers: %s", checks.Or(dynamic[0].Err))
	group := w.Topic("g")
	configured(w, group, map[string]string{"consumer.session.timeout.ms": "50000"})
	w.Until("the topic and the group are listed", func() bool {
		listed, err := adm.ListConfigResources(w.Ctx)
		w.OK(err, "list config resources")
		names := listed.Names()
		return slices.Contains(names, group) && slices.Contains(names, name)
	})
}

// shown are the configs of a topic that are its own.
func shown(w *checks.World, adm *kadm.Client, name string) string {
	found, err := adm.DescribeTopicConfigs(w.Ctx, name)
	w.OK(err, "describe configs")
	var texts []string
	for _, one := range found[0].Configs {
		if one.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
			texts = append(texts, one.Key+"="+one.MaybeValue())
		}
	}
	sort.Strings(texts)
	return strings.Join(texts, " ")
}

// offsets: a group that no member ever joined has offsets and can be deleted.
func offsets(w *checks.World) {
	adm := admin(w)
	name, group := topic(w, "o", 2), w.Topic("g")
	written(w, client(w), name, 0, 10)
	var set kadm.Offsets
	set.Add(kadm.Offset{Topic: name, Partition: 0, At: 2, LeaderEpoch: 0, Metadata: "noted"})
	set.Add(kadm.Offset{Topic: name, Partition: 1, At: 1, LeaderEpoch: -1})
	set.Add(kadm.Offset{Topic: w.Topic("missing"), Partition: 0, At: 1, LeaderEpoch: -1})
	done, err := adm.CommitOffsets(w.Ctx, group, set)
	w.OK(err, "commit")
	for _, one := range done.Sorted() {
		w.Saw("commit %d: %s", one.Partition, checks.Or(one.Err))
	}
	many := adm.FetchManyOffsets(w.Ctx, group, w.Topic("nobody"))
	found := many[group]
	w.OK(found.Err, "fetch offsets")
	for _, one := range found.Fetched.Sorted() {
		w.Saw("offset of %d: %d, epoch %d, %q", one.Partition, one.At, one.LeaderEpoch, one.Metadata)
	}
	w.Saw("nobody: %s, %d", checks.Or(many[w.Topic("nobody")].Err), len(many[w.Topic("nobody")].Fetched))
	metadata := strings.Repeat("x", 5000)
	set = nil
	set.Add(kadm.Offset{Topic: name, Partition: 0, At: 2, LeaderEpoch: 0, Metadata: metadata})
	done, err = adm.CommitOffsets(w.Ctx, group, set)
	w.OK(err, "commit")
	one, _ := done.Lookup(name, 0)
	w.Is(one.Err, kerr.OffsetMetadataTooLarge, "metadata of 5,000 characters")
	coordinators := adm.FindGroupCoordinators(w.Ctx, group)
	w.OK(coordinators.Error(), "find the coordinator")
	described, err := adm.DescribeGroups(w.Ctx, group, w.Topic("nobody"))
	w.OK(err, "describe groups")
	for _, name := range []string{group, w.Topic("nobody")} {
		w.Saw("described: %s %q %s", described[name].State, described[name].ProtocolType, checks.Or(described[name].Err))
	}
	newer, err := adm.DescribeConsumerGroups(w.Ctx, group, w.Topic("nobody"))
	w.Saw("as groups of the new protocol: %s %s %s", checks.Or(err), checks.Or(newer[group].Err), checks.Or(newer[w.Topic("nobody")].Err))
	ended(w, adm, group, name)
}

// users: passwords of SCRAM and quotas.
func users(w *checks.World) {
	adm := admin(w)
	user := w.Topic("u")
	done, err := adm.AlterUserSCRAMs(w.Ctx, nil, []kadm.UpsertSCRAM{
		{User: user, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "p"},
	})
	w.OK(err, "alter SCRAM users")
	w.OK(done.Error(), "alter SCRAM users")
	twice := []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "p"}}
	done, err = adm.AlterUserSCRAMs(w.Ctx, nil, append(twice, twice[0]))
	w.Saw("a user twice: %s %s", checks.Or(err), checks.Or(done[user].Err))
	few, err := adm.AlterUserSCRAMs(w.Ctx, nil, []kadm.UpsertSCRAM{{User: user, Mechanism: kadm.ScramSha256, Iterations: 100, Password: "p"}})
	w.Saw("100 iterations: %s %s", checks.Or(err), checks.Or(few[user].Err))
	found, err := adm.DescribeUserSCRAMs(w.Ctx, user)
	w.OK(err, "describe SCRAM users")
	w.Saw("described: %v %s", found[user].CredInfos, checks.Or(found[user].Err))
	done, err = adm.AlterUserSCRAMs(w.Ctx, []kadm.DeleteSCRAM{{User: user, Mechanism: kadm.ScramSha256}}, nil)
	w.OK(err, "delete SCRAM users")
	w.OK(done.Error(), "delete SCRAM users")
	w.Until("the user is gone", func() bool {
		found, err = adm.DescribeUserSCRAMs(w.Ctx, user)
		return err == nil && errors.Is(found[user].Err, kerr.ResourceNotFound)
	})
	quotas(w, adm, user)
}

func quotas(w *checks.World, adm *kadm.Client, user string) {
	id := user + "-c"
	entity := kadm.ClientQuotaEntity{{Type: "user", Name: &user}, {Type: "client-id", Name: &id}}
	for _, ops := range [][]kadm.AlterClientQuotaOp{
		{{Key: "producer_byte_rate", Value: 1024}, {Key: "consumer_byte_rate", Value: 2048}},
		{{Key: "consumer_byte_rate", Remove: true}},
		{{Key: "no_such_rate", Value: 1}},
		{{Key: "producer_byte_rate", Value: -1}},
		{{Key: "producer_byte_rate", Remove: true}},
	} {
		entry := []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: ops}}
		tried, err := adm.ValidateAlterClientQuotas(w.Ctx, entry)
		w.OK(err, "validate quotas")
		done, err := adm.AlterClientQuotas(w.Ctx, entry)
		w.OK(err, "alter quotas")
		// Kafka describes what its metadata already has.
		time.Sleep(300 * time.Millisecond)
		found, err := adm.DescribeClientQuotas(w.Ctx, true, []kadm.DescribeClientQuotaComponent{
			{Type: "user", MatchName: &user, MatchType: 0}, {Type: "client-id", MatchType: 2},
		})
		w.OK(err, "describe quotas")
		var texts []string
		for _, one := range found {
			for _, value := range one.Values {
				texts = append(texts, fmt.Sprint(one.Entity, " ", value))
			}
		}
		sort.Strings(texts)
		w.Saw("quotas: validated %s, altered %s: %v", checks.Or(tried[0].Err), checks.Or(done[0].Err), texts)
	}
}

// replicas: log directories, elections, reassignments, and what a broker alone says to them.
func replicas(w *checks.World) {
	adm := admin(w)
	name := topic(w, "r", 2)
	written(w, client(w), name, 0, 10)
	var set kadm.TopicsSet
	set.Add(name, 0, 1)
	dirs, err := adm.DescribeAllLogDirs(w.Ctx, set)
	w.OK(err, "describe log directories")
	for _, dir := range dirs.Sorted() {
		w.Saw("a directory: %d topics, %d partitions, sizes %t, error %s, cordoned %t", len(dir.Topics), len(dir.Topics[name]),
			dir.TotalBytes > 0 && dir.UsableBytes > 0 && dir.Topics.Size() > 0, checks.Or(dir.Err), dir.IsCordoned)
	}
	set.Add(name, 9)
	for _, how := range []kadm.ElectLeadersHow{kadm.ElectPreferredReplica, kadm.ElectLiveReplica} {
		elected, err := adm.ElectLeaders(w.Ctx, how, set)
		w.OK(err, "elect leaders")
		for _, p := range []int32{0, 9} {
			w.Saw("election %d of %d: %s", how, p, checks.Or(elected[name][p].Err))
		}
	}
	for what, brokers := range map[string][]int32{"the same": {1}, "an unknown one": {7}, "none": {}} {
		var request kadm.AlterPartitionAssignmentsReq
		request.Assign(name, 0, brokers)
		done, err := adm.AlterPartitionAssignments(w.Ctx, request)
		w.OK(err, "reassign")
		w.Saw("reassign to %s: %s", what, checks.Or(done[name][0].Err))
	}
	var cancel kadm.AlterPartitionAssignmentsReq
	cancel.CancelAssign(name, 0)
	done, err := adm.AlterPartitionAssignments(w.Ctx, cancel)
	w.OK(err, "cancel a reassignment")
	w.Saw("cancel a reassignment: %s", checks.Or(done[name][0].Err))
	set.Delete(name, 9)
	listed, err := adm.ListPartitionReassignments(w.Ctx, set)
	w.OK(err, "list reassignments")
	w.Saw("reassignments: %d", len(listed))
	metadata, err := adm.BrokerMetadata(kadm.WithAuthorizedOps(w.Ctx))
	w.OK(err, "metadata")
	w.Saw("%d brokers, controller %d", len(metadata.Brokers), metadata.Controller)
	_, err = adm.CreateDelegationToken(w.Ctx, kadm.CreateDelegationToken{})
	w.Saw("a delegation token: %s", checks.Or(err))
}
