package main

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"odradek/conformance/checks"
)

// topics: created, described, made larger, emptied and deleted, with the errors of each.
func topics(w *checks.World) {
	for _, version := range versions {
		adm := admin(w, configured(version))
		name := topic(w, version.String(), 2)
		detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}
		w.Saw("%v: again: %s", version, checks.Or(adm.CreateTopic(name, detail, true)))
		w.Saw("%v: a bad name: %s", version, checks.Or(adm.CreateTopic("a/b", detail, false)))
		w.Saw("%v: 3 replicas: %s", version, checks.Or(adm.CreateTopic(w.Topic("x"), &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}, false)))
		by := &sarama.TopicDetail{NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: map[int32][]int32{0: {1}, 1: {1}}}
		w.OK(adm.CreateTopic(name+"-assigned", by, false), "create with an assignment")
		found, err := adm.DescribeTopics([]string{name, w.Topic("missing")})
		w.OK(err, "describe topics")
		for _, one := range found {
			w.Saw("%v: %s: %d partitions, internal %t, error %s", version, one.Name, len(one.Partitions), one.IsInternal, checks.Or(one.Err))
		}
		w.OK(adm.CreatePartitions(name, 4, nil, false), "create partitions")
		w.Saw("%v: fewer partitions: %s", version, checks.Or(adm.CreatePartitions(name, 3, nil, false)))
		w.OK(adm.CreatePartitions(name, 5, [][]int32{{1}}, false), "create partitions by an assignment")
		written(w, name, 0, 50)
		end, err := client(w, newest()).GetOffset(name, 0, sarama.OffsetNewest)
		w.OK(err, "the end")
		w.OK(adm.DeleteRecords(name, map[int32]int64{0: end}), "delete records")
		start, err := client(w, newest()).GetOffset(name, 0, sarama.OffsetOldest)
		w.OK(err, "the start")
		w.Same(start, end, "start after deletion")
		w.Saw("%v: beyond the end: %s", version, checks.Or(adm.DeleteRecords(name, map[int32]int64{0: end + 1})))
		w.OK(adm.DeleteTopic(name), "delete")
		w.Until("it is gone", func() bool { return adm.DeleteTopic(name) == sarama.ErrUnknownTopicOrPartition })
	}
}

// configs: of topics, step by step and as a whole.
func configs(w *checks.World) {
	// A client of 1.0 asks for DescribeConfigs 0, which Kafka 4 does not know any more.
	for _, version := range versions[1:] {
		adm := admin(w, configured(version))
		name := topic(w, version.String(), 1)
		text := func(value string) *string { return &value }
		w.OK(adm.AlterConfig(sarama.TopicResource, name, map[string]*string{"retention.ms": text("1000000")}, false), "alter")
		w.Saw("%v: %s", version, shown(w, adm, name))
		w.Saw("%v: a bad value: %s", version, checks.Or(adm.AlterConfig(sarama.TopicResource, name, map[string]*string{"retention.ms": text("x")}, true)))
		steps := map[string]sarama.IncrementalAlterConfigsEntry{
			"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: text("compact")},
			"retention.ms":   {Operation: sarama.IncrementalAlterConfigsOperationDelete},
		}
		w.OK(adm.IncrementalAlterConfig(sarama.TopicResource, name, steps, false), "alter step by step")
		w.Saw("%v: %s", version, shown(w, adm, name))
		brokers, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1"})
		w.OK(err, "describe a broker")
		w.Same(len(brokers) > 50, true, "configs of a broker")
	}
}

func shown(w *checks.World, adm sarama.ClusterAdmin, name string) string {
	// Kafka describes what its metadata already has.
	time.Sleep(300 * time.Millisecond)
	found, err := adm.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: name})
	w.OK(err, "describe configs")
	var texts []string
	for _, one := range found {
		if one.Source == sarama.SourceTopic || !one.Default && one.Source == sarama.SourceUnknown {
			texts = append(texts, one.Name+"="+one.Value)
		}
	}
	sort.Strings(texts)
	return strings.Join(texts, " ")
}

// offsets: a group that no member ever joined.
func offsets(w *checks.World) {
	for _, version := range versions {
		adm := admin(w, configured(version))
		name := topic(w, version.String(), 2)
		group := name + "-g"
		written(w, name, 0, 10)
		wanted := map[string]map[int32]sarama.OffsetAndMetadata{name: {0: {Offset: 2, Metadata: "noted", LeaderEpoch: -1}}}
		done, err := adm.AlterConsumerGroupOffsets(group, wanted, nil)
		w.OK(err, "alter offsets")
		w.Saw("%v: alter offsets: %v", version, done.Errors)
		found, err := adm.ListConsumerGroupOffsets(group, map[string][]int32{name: {0, 1}})
		w.OK(err, "list offsets")
		for _, number := range []int32{0, 1} {
			one := found.Blocks[name][number]
			w.Saw("%v: offset of %d: %d, epoch %d, %q, error %s", version, number, one.Offset, one.LeaderEpoch, one.Metadata, checks.Or(one.Err))
		}
		described, err := adm.DescribeConsumerGroups([]string{group, group + "-nobody"})
		w.Saw("%v: described: %s", version, checks.Or(err))
		for _, one := range described {
			w.Saw("%v: described: %s %s %q, error %s", version, one.GroupId, one.State, one.ProtocolType, checks.Or(one.Err))
		}
		listed, err := adm.ListConsumerGroups()
		w.OK(err, "list groups")
		kind, there := listed[group]
		w.Saw("%v: listed %q %t", version, kind, there)
	}
}

// users: passwords of SCRAM and quotas.
func users(w *checks.World) {
	adm := admin(w, newest())
	user := w.Topic("u")
	done, err := adm.UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{
		{Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_512, Iterations: 8192, Salt: []byte("salt"), Password: []byte("p")},
	})
	w.OK(err, "alter SCRAM users")
	w.Saw("a user: %s", checks.Or(done[0].ErrorCode))
	w.Until("the user is there", func() bool {
		found, err := adm.DescribeUserScramCredentials([]string{user})
		return err == nil && len(found[0].CredentialInfos) == 1 && found[0].CredentialInfos[0].Iterations == 8192
	})
	gone, err := adm.DeleteUserScramCredentials([]sarama.AlterUserScramCredentialsDelete{{Name: user, Mechanism: sarama.SCRAM_MECHANISM_SHA_512}})
	w.OK(err, "delete SCRAM users")
	w.Saw("deleted: %s", checks.Or(gone[0].ErrorCode))
	entity := []sarama.QuotaEntityComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Name: user}}
	w.OK(adm.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1024}, false), "alter quotas")
	filter := []sarama.QuotaFilterComponent{{EntityType: sarama.QuotaEntityUser, MatchType: sarama.QuotaMatchExact, Match: user}}
	w.Until("the quota is there", func() bool {
		found, err := adm.DescribeClientQuotas(filter, true)
		return err == nil && len(found) == 1 && found[0].Values["producer_byte_rate"] == 1024
	})
	w.Saw("a bad quota: %s", checks.Or(adm.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "no_such_rate", Value: 1}, false)))
	w.OK(adm.AlterClientQuotas(entity, sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true}, false), "remove a quota")
}

// replicas: log directories, elections, reassignments, brokers, and what is open.
func replicas(w *checks.World) {
	adm := admin(w, newest())
	name := topic(w, "r", 2)
	written(w, name, 0, 10)
	brokers, controller, err := adm.DescribeCluster()
	w.OK(err, "describe the cluster")
	w.Saw("%d brokers, controller %d", len(brokers), controller)
	dirs, err := adm.DescribeLogDirs([]int32{1})
	w.OK(err, "describe log directories")
	for _, dir := range dirs[1] {
		w.Saw("a directory: sizes %t, error %s", dir.TotalBytes > 0 && dir.UsableBytes > 0, checks.Or(dir.ErrorCode))
	}
	elected, err := adm.ElectLeaders(sarama.PreferredElection, map[string][]int32{name: {0, 9}})
	w.Saw("elections: %s", checks.Or(err))
	for number, one := range elected[name] {
		w.Saw("election of %d: %s", number, checks.Or(one.ErrorCode))
	}
	w.Saw("reassign: %s", checks.Or(adm.AlterPartitionReassignments(name, [][]int32{{1}, {1}})))
	w.Saw("reassign to an unknown one: %s", checks.Or(adm.AlterPartitionReassignments(name, [][]int32{{7}, {1}})))
	listed, err := adm.ListPartitionReassignments(name, []int32{0, 1})
	w.OK(err, "list reassignments")
	w.Saw("reassignments: %s", fmt.Sprint(len(listed)))
}

// acls: created, described and deleted; a broker without an authorizer says so.
func acls(w *checks.World) {
	for _, version := range versions {
		adm := admin(w, configured(version))
		resource := sarama.Resource{ResourceType: sarama.AclResourceTopic, ResourceName: w.Topic("t"), ResourcePatternType: sarama.AclPatternLiteral}
		acl := sarama.Acl{Principal: "User:" + user, Host: "*", Operation: sarama.AclOperationRead, PermissionType: sarama.AclPermissionAllow}
		w.Saw("%v: create: %s", version, checks.Or(adm.CreateACL(resource, acl)))
		name := w.Topic("t")
		filter := sarama.AclFilter{
			ResourceType: sarama.AclResourceTopic, ResourceName: &name, ResourcePatternTypeFilter: sarama.AclPatternLiteral,
			Operation: sarama.AclOperationAny, PermissionType: sarama.AclPermissionAny,
		}
		found, err := adm.ListAcls(filter)
		w.Saw("%v: list: %d %s", version, len(found), checks.Or(err))
		gone, err := adm.DeleteACL(filter, false)
		w.Saw("%v: delete: %d %s", version, len(gone), checks.Or(err))
	}
}
