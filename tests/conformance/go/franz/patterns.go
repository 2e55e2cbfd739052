package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"odradek/conformance/checks"
)

// What RE2 has, and what it does not have or other engines read otherwise. @ stands for the beginning of all names.
var expressions = []string{
	"@a", "@a.*", "@(?i)A1", "@[[:alpha:]]\\d", "@(a1|b\\.2)", "@\\Qb.2\\E", "@(?P<n>a)1", "@(?<n>a)1", "@a?\\w+",
	"@[^a]+", "@a{1}1", "@.{2}", "@\\x61.", "@(?s).*", "@(?U)a.*", "@[\\d\\w]+", "@b[.]2", "^@a1$", "\\A@a1\\z", "@a1\\b",
	"@a1\\B", "a1", "@[a-b&&a]1", "@\\141.", "@a1|@b.2", "@c_\\-3", "@c_[\\-]3", "@[]c_-]+3", "@(?:a)1", "@a++1",
	"@(?=a)a1", "@(a)\\1", "@(", "@[z-a]", "@a{2,1}", "@a{1001}", "@\\Z", "@a1\\Z", "@(?#x)a1", "@(?x) a1", "@\\h1",
	"@\\C1", "@\\\\C1", "@\\Q\\C\\E", "@[\\C]1", "@[[:foo:]]", "@\\p{Greek}", "@a**",
}

var suffixes = []string{"A1", "a", "a1", "b.2", "c_-3"}

// patterns: topics that a member subscribes by a pattern, and transactional ids listed by one. Go's RE2 is the judge.
func patterns(w *checks.World) {
	prefix := w.Topic("p") + "-"
	adm := admin(w)
	for _, suffix := range suffixes {
		w.OK(client(w, kgo.TransactionalID(prefix+suffix)).BeginTransaction(), "begin")
		_, err := adm.CreateTopic(w.Ctx, 1, 1, nil, prefix+suffix)
		w.OK(err, "create")
	}
	for number, expression := range expressions {
		pattern := strings.ReplaceAll(expression, "@", prefix)
		listed, err := adm.ListTransactionsByTxPattern(w.Ctx, nil, nil, pattern)
		if compiled, wrong := regexp.Compile("^(?:" + pattern + ")$"); wrong != nil {
			w.Is(err, kerr.InvalidRegularExpression, "ids of "+expression)
			_, err = subscribed(w, adm, w.Topic(fmt.Sprint(number)), pattern, nil)
			w.Is(err, kerr.InvalidRegularExpression, "topics of "+expression)
		} else {
			w.OK(err, "ids of "+expression)
			names := matching(compiled, prefix)
			w.Same(ours(listed.TransactionalIDs(), prefix), names, "ids of "+expression)
			topics, err := subscribed(w, adm, w.Topic(fmt.Sprint(number)), pattern, names)
			w.OK(err, "topics of "+expression)
			w.Same(ours(topics, prefix), names, "topics of "+expression)
		}
	}
}

func matching(compiled *regexp.Regexp, prefix string) []string {
	found := []string{}
	for _, suffix := range suffixes {
		if compiled.MatchString(prefix + suffix) {
			found = append(found, suffix)
		}
	}
	return found
}

// ours are the names of this check, without what they all begin with.
func ours(names []string, prefix string) []string {
	found := []string{}
	for _, name := range names {
		if suffix, is := strings.CutPrefix(name, prefix); is {
			found = append(found, suffix)
		}
	}
	slices.Sort(found)
	return found
}

// subscribed returns the topics that the only member of a group gets by a pattern: as many as are expected, if they come.
func subscribed(w *checks.World, adm *kadm.Client, group, pattern string, expected []string) ([]string, error) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis = group, "AAAAAAAAAAAAAAAAAAAAAA", 10_000
	req.SubscribedTopicNames, req.Topics = []string{}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	req.SubscribedTopicRegex = &pattern
	by := client(w)
	resp, err := req.RequestWith(w.Ctx, by)
	w.OK(err, "heartbeat")
	if resp.ErrorCode != 0 {
		return nil, kerr.ErrorForCode(resp.ErrorCode)
	}
	var found []string
	for turn := 0; turn < 20 && (len(found) == 0 || len(found) < len(expected)); turn++ {
		if len(expected) == 0 && turn > 3 {
			break
		}
		time.Sleep(50 * time.Millisecond)
		again := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		again.Group, again.MemberID, again.MemberEpoch = group, req.MemberID, resp.MemberEpoch
		resp, err = again.RequestWith(w.Ctx, by)
		w.OK(err, "heartbeat")
		w.OK(kerr.ErrorForCode(resp.ErrorCode), "heartbeat")
		all, err := adm.DescribeConsumerGroups(w.Ctx, group)
		w.OK(err, "describe consumer groups")
		found = nil
		for name := range all[group].Members[0].TargetAssignment {
			found = append(found, name)
		}
	}
	by.Close()
	return found, nil
}
