package main

import (
	"context"
	"sync"

	"github.com/IBM/sarama"
	"odradek/conformance/checks"
)

// A member of a group: what it has, and what it read.
type member struct {
	sarama.ConsumerGroup
	lock   sync.Mutex
	has    int
	values map[string]int
	errors []error
	// each is called with every record where it is set.
	each func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage) error
}

func join(w *checks.World, group, topic string, config *sarama.Config) *member {
	return joinWith(w, group, topic, config, nil)
}

func joinWith(w *checks.World, group, topic string, config *sarama.Config,
	each func(sarama.ConsumerGroupSession, *sarama.ConsumerMessage) error,
) *member {
	made, err := sarama.NewConsumerGroup([]string{w.Broker}, group, config)
	w.OK(err, "a group")
	m := &member{ConsumerGroup: made, values: map[string]int{}, each: each}
	ctx, cancel := context.WithCancel(w.Ctx)
	done := make(chan bool)
	go func() {
		for err := range made.Errors() {
			m.lock.Lock()
			m.errors = append(m.errors, err)
			m.lock.Unlock()
		}
	}()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := made.Consume(ctx, []string{topic}, m); err != nil {
				return
			}
		}
	}()
	w.Later(func() { cancel(); _ = made.Close(); <-done })
	return m
}

func (m *member) Setup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.grow(1)
	defer m.grow(-1)
	for {
		select {
		case message, more := <-claim.Messages():
			if !more {
				return nil
			}
			if m.each != nil {
				if err := m.each(session, message); err != nil {
					m.lock.Lock()
					m.errors = append(m.errors, err)
					m.lock.Unlock()
					return err
				}
			} else {
				session.MarkMessage(message, "read")
			}
			m.lock.Lock()
			m.values[string(message.Value)]++
			m.lock.Unlock()
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) grow(by int) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.has += by
}

func (m *member) count() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.has
}

func (m *member) read() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return len(m.values)
}

// together: two members share six partitions, one leaves, and the group is taken apart.
func together(w *checks.World, version sarama.KafkaVersion, strategy sarama.BalanceStrategy) {
	to := topic(w, version.String()+"-"+strategy.Name(), 6)
	group := to + "-g"
	written(w, to, 0, 60)
	config := configured(version)
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	one := join(w, group, to, config)
	w.Until("all is read", func() bool { return one.read() == 60 })
	two := join(w, group, to, config)
	w.Until("each member has three", func() bool { return one.count() == 3 && two.count() == 3 })
	adm := admin(w, configured(version))
	found, err := adm.DescribeConsumerGroups([]string{group})
	w.OK(err, "describe groups")
	w.Saw("%v: %s %s %s, %d members, operations %d, error %s", version, found[0].State, found[0].ProtocolType, found[0].Protocol,
		len(found[0].Members), found[0].AuthorizedOperations, checks.Or(found[0].Err))
	for _, m := range found[0].Members {
		assignment, err := m.GetMemberAssignment()
		w.OK(err, "an assignment")
		w.Same(len(assignment.Topics[to]), 3, "partitions of a member")
	}
	w.OK(two.Close(), "leave")
	w.Until("one has all", func() bool { return one.count() == 6 })
	written(w, to, 60, 12)
	w.Until("all is read", func() bool { return one.read() == 72 })
	w.OK(one.Close(), "leave")
	offsets, err := adm.ListConsumerGroupOffsets(group, map[string][]int32{to: {0, 1, 2, 3, 4, 5}})
	w.OK(err, "list offsets")
	committed := int64(0)
	for _, block := range offsets.Blocks[to] {
		committed += block.Offset
	}
	w.Same(committed, int64(72), "committed offsets")
	if version.IsAtLeast(sarama.V2_8_0_0) {
		w.OK(adm.DeleteConsumerGroupOffset(group, to, 0), "delete an offset")
	}
	if version.IsAtLeast(sarama.V1_1_0_0) {
		w.OK(adm.DeleteConsumerGroup(group), "delete a group")
		w.Is(adm.DeleteConsumerGroup(group), sarama.ErrGroupIDNotFound, "delete a group again")
	}
}

// classic: a group by each of the older strategies, in each version.
func classic(w *checks.World) {
	for _, version := range versions {
		for _, strategy := range []sarama.BalanceStrategy{
			sarama.NewBalanceStrategyRange(), sarama.NewBalanceStrategySticky(), sarama.NewBalanceStrategyRoundRobin(),
		} {
			together(w, version, strategy)
		}
	}
}

// cooperative: as above, where members keep what stays theirs.
func cooperative(w *checks.World) {
	together(w, sarama.V4_3_1_0, sarama.NewBalanceStrategyCooperativeSticky())
}

// static: a member with an instance id comes back, and an admin removes it.
func static(w *checks.World) {
	to, group := topic(w, "s", 4), w.Topic("g")
	written(w, to, 0, 40)
	config := newest()
	config.Consumer.Group.InstanceId = "i-1"
	one := join(w, group, to, config)
	w.Until("all is read", func() bool { return one.read() == 40 })
	w.OK(one.Close(), "close")
	again := join(w, group, to, config)
	w.Until("the member is back", func() bool { return again.count() == 4 })
	written(w, to, 40, 4)
	w.Until("all is read", func() bool { return again.read() == 4 })
	adm := admin(w, newest())
	found, err := adm.DescribeConsumerGroups([]string{group})
	w.OK(err, "describe groups")
	w.Same(len(found[0].Members), 1, "members")
	w.OK(again.Close(), "close")
	left, err := adm.RemoveMemberFromConsumerGroup(group, []string{"i-1", "i-2"})
	w.OK(err, "remove members")
	for _, one := range left.Members {
		w.Saw("remove %s: %s", *one.GroupInstanceId, checks.Or(one.Err))
	}
	w.OK(adm.DeleteConsumerGroup(group), "delete a group")
}

// exactlyOnce: a group's records go to another topic with its offsets, each in a transaction.
func exactlyOnce(w *checks.World) {
	from, to, group := topic(w, "from", 2), topic(w, "to", 1), w.Topic("g")
	written(w, from, 0, 40)
	producer := transactional(w, sarama.V4_3_1_0, w.Topic("id"))
	var lock sync.Mutex
	number := 0
	config := newest()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = false
	mover := joinWith(w, group, from, config, func(_ sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) error {
		lock.Lock()
		defer lock.Unlock()
		number++
		if number%5 == 0 {
			if err := moved(producer, to, group, message, producer.AbortTxn); err != nil {
				return err
			}
		}
		return moved(producer, to, group, message, producer.CommitTxn)
	})
	careful := newest()
	careful.Consumer.IsolationLevel = sarama.ReadCommitted
	w.Same(values(messages(w, careful, to, 40)), each(0, 40), "moved records")
	w.OK(mover.Close(), "leave")
	offsets, err := admin(w, newest()).ListConsumerGroupOffsets(group, map[string][]int32{from: {0, 1}})
	w.OK(err, "list offsets")
	w.Same(offsets.Blocks[from][0].Offset+offsets.Blocks[from][1].Offset, int64(40), "committed offsets")
}

func moved(producer sarama.SyncProducer, to, group string, message *sarama.ConsumerMessage, end func() error) error {
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: to, Value: sarama.ByteEncoder(message.Value)})
	if err != nil {
		return err
	}
	if err := producer.AddMessageToTxn(message, group, nil); err != nil {
		return err
	}
	return end()
}
