package main

import (
	"sort"
	"time"

	"github.com/segmentio/kafka-go"
	"odradek/conformance/checks"
)

// topics: created, made larger and deleted, with the errors of each.
func topics(w *checks.World) {
	name := topic(w, "t", 2)
	for _, config := range []kafka.TopicConfig{
		{Topic: name, NumPartitions: 1, ReplicationFactor: 1},
		{Topic: "a b", NumPartitions: 1, ReplicationFactor: 1},
		{Topic: w.Topic("x"), NumPartitions: 1, ReplicationFactor: 3},
		{Topic: w.Topic("y"), NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignments: []kafka.ReplicaAssignment{{Partition: 0, Replicas: []int{1}}}},
		{Topic: w.Topic("z"), NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "x"}}},
	} {
		done, err := client(w).CreateTopics(w.Ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
		w.OK(err, "create")
		w.Saw("create %s: %s", config.Topic, checks.Or(done.Errors[config.Topic]))
	}
	for _, count := range []int32{4, 3} {
		done, err := client(w).CreatePartitions(w.Ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: name, Count: count}}})
		w.OK(err, "create partitions")
		w.Saw("%d partitions: %s", count, checks.Or(done.Errors[name]))
	}
	gone, err := client(w).DeleteTopics(w.Ctx, &kafka.DeleteTopicsRequest{Topics: []string{name, w.Topic("missing")}})
	w.OK(err, "delete")
	w.Saw("deleted: %s, a missing one: %s", checks.Or(gone.Errors[name]), checks.Or(gone.Errors[w.Topic("missing")]))
	conn, err := kafka.DialContext(w.Ctx, "tcp", w.Broker)
	w.OK(err, "connect")
	defer conn.Close()
	brokers, err := conn.Brokers()
	w.OK(err, "brokers")
	controller, err := conn.Controller()
	w.OK(err, "the controller")
	w.Saw("%d brokers, controller %d", len(brokers), controller.ID)
	apis, err := conn.ApiVersions()
	w.OK(err, "api versions")
	w.Same(len(apis) > 40, true, "many apis")
}

// configs: altered step by step and described.
func configs(w *checks.World) {
	name := topic(w, "c", 1)
	set := func(config, value string, op kafka.ConfigOperation) {
		done, err := client(w).IncrementalAlterConfigs(w.Ctx, &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: name,
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: config, Value: value, ConfigOperation: op}},
			}},
		})
		w.OK(err, "alter configs")
		w.Saw("%s %d %s: %s", config, op, value, checks.Or(done.Resources[0].Error))
	}
	set("retention.ms", "1000000", kafka.ConfigOperationSet)
	set("cleanup.policy", "compact", kafka.ConfigOperationAppend)
	set("retention.ms", "never", kafka.ConfigOperationSet)
	set("no.such.config", "x", kafka.ConfigOperationSet)
	done, err := client(w).AlterConfigs(w.Ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: name, Configs: []kafka.AlterConfigRequestConfig{{Name: "max.message.bytes", Value: "2000000"}},
	}}})
	w.OK(err, "alter configs as a whole")
	for _, err := range done.Errors {
		w.OK(err, "alter configs as a whole")
	}
	// Kafka describes what its metadata already has.
	time.Sleep(300 * time.Millisecond)
	found, err := client(w).DescribeConfigs(w.Ctx, &kafka.DescribeConfigsRequest{
		Resources:       []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: name}},
		IncludeSynonyms: true, IncludeDocumentation: true,
	})
	w.OK(err, "describe configs")
	var own []string
	for _, one := range found.Resources[0].ConfigEntries {
		if one.ConfigSource == 1 {
			own = append(own, one.ConfigName+"="+one.ConfigValue)
		}
	}
	sort.Strings(own)
	w.Saw("configs: %v", own)
}

// users: passwords of SCRAM and quotas.
func users(w *checks.World) {
	name := w.Topic("u")
	done, err := client(w).AlterUserScramCredentials(w.Ctx, &kafka.AlterUserScramCredentialsRequest{
		Upsertions: []kafka.UserScramCredentialsUpsertion{{
			Name: name, Mechanism: kafka.ScramMechanismSha512, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: make([]byte, 64),
		}},
	})
	w.OK(err, "alter SCRAM users")
	w.Saw("a user: %s", checks.Or(done.Results[0].Error))
	w.Until("the user is there", func() bool {
		found, err := client(w).DescribeUserScramCredentials(w.Ctx, &kafka.DescribeUserScramCredentialsRequest{Users: []kafka.UserScramCredentialsUser{{Name: name}}})
		return err == nil && found.Results[0].Error == nil && len(found.Results[0].CredentialInfos) == 1
	})
	done, err = client(w).AlterUserScramCredentials(w.Ctx, &kafka.AlterUserScramCredentialsRequest{
		Deletions: []kafka.UserScramCredentialsDeletion{{Name: name, Mechanism: kafka.ScramMechanismSha512}},
	})
	w.OK(err, "delete SCRAM users")
	w.Saw("deleted: %s", checks.Or(done.Results[0].Error))
	for _, op := range []kafka.AlterClientQuotaOps{{Key: "producer_byte_rate", Value: 1024}, {Key: "no_such_rate", Value: 1}, {Key: "producer_byte_rate", Remove: true}} {
		done, err := client(w).AlterClientQuotas(w.Ctx, &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{{
			Entities: []kafka.AlterClientQuotaEntity{{EntityType: "user", EntityName: name}}, Ops: []kafka.AlterClientQuotaOps{op},
		}}})
		w.OK(err, "alter quotas")
		w.Saw("quota %v: %s", op, checks.Or(done.Entries[0].Error))
		time.Sleep(300 * time.Millisecond)
		found, err := client(w).DescribeClientQuotas(w.Ctx, &kafka.DescribeClientQuotasRequest{
			Components: []kafka.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: 0, Match: name}}, Strict: true,
		})
		w.OK(err, "describe quotas")
		w.Saw("after %v: %d", op, len(found.Entries))
	}
}

// replicas: elections and reassignments, and what a broker alone says to them.
func replicas(w *checks.World) {
	name := topic(w, "r", 2)
	elected, err := client(w).ElectLeaders(w.Ctx, &kafka.ElectLeadersRequest{Topic: name, Partitions: []int{0, 9}, Timeout: 5 * time.Second})
	w.OK(err, "elect leaders")
	for _, one := range elected.PartitionResults {
		w.Saw("election of %d: %s", one.Partition, checks.Or(one.Error))
	}
	for _, broker := range []int{1, 7} {
		done, err := client(w).AlterPartitionReassignments(w.Ctx, &kafka.AlterPartitionReassignmentsRequest{
			Topic: name, Timeout: 5 * time.Second,
			Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: 0, BrokerIDs: []int{broker}}},
		})
		w.OK(err, "reassign")
		w.Saw("reassign to %d: %s", broker, checks.Or(done.PartitionResults[0].Error))
	}
	listed, err := client(w).ListPartitionReassignments(w.Ctx, &kafka.ListPartitionReassignmentsRequest{
		Topics: map[string]kafka.ListPartitionReassignmentsRequestTopic{name: {PartitionIndexes: []int{0, 1}}}, Timeout: 5 * time.Second,
	})
	w.OK(err, "list reassignments")
	w.Saw("reassignments: %d", len(listed.Topics))
}

// acls: created, described and deleted; a broker without an authorizer says so.
func acls(w *checks.World) {
	done, err := client(w).CreateACLs(w.Ctx, &kafka.CreateACLsRequest{ACLs: []kafka.ACLEntry{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: w.Topic("t"), ResourcePatternType: kafka.PatternTypeLiteral,
		Principal: "User:" + user, Host: "*", Operation: kafka.ACLOperationTypeRead, PermissionType: kafka.ACLPermissionTypeAllow,
	}}})
	w.OK(err, "create ACLs")
	w.Saw("create: %s", checks.Or(done.Errors[0]))
	found, err := client(w).DescribeACLs(w.Ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceTypeTopic, ResourceNameFilter: w.Topic("t"), ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}})
	w.OK(err, "describe ACLs")
	w.Saw("describe: %d %s", len(found.Resources), checks.Or(found.Error))
	gone, err := client(w).DeleteACLs(w.Ctx, &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{{
		ResourceTypeFilter: kafka.ResourceTypeTopic, ResourceNameFilter: w.Topic("t"), ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}}})
	w.OK(err, "delete ACLs")
	w.Saw("delete: %d %s", len(gone.Results[0].MatchingACLs), checks.Or(gone.Results[0].Error))
}
