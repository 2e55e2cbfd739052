package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"odradek/conformance/checks"
)

// The user whom the broker's PLAIN knows too.
const user, password = "alice", `secret, "=7`

func contextFor(w *checks.World, longest time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.Ctx, longest)
}

// secure: TLS, and each mechanism of SASL with the right and with a wrong password.
func secure(w *checks.World) {
	for _, mechanism := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		wanted := []kadm.UpsertSCRAM{{User: user, Mechanism: mechanism, Iterations: 4096, Password: password}}
		done, err := admin(w).AlterUserSCRAMs(w.Ctx, nil, wanted)
		w.OK(err, "alter SCRAM users")
		w.OK(done.Error(), "alter SCRAM users")
	}
	walk(w, "tls", kgo.SeedBrokers(w.TLS), kgo.DialTLSConfig(trusting(w)))
	for name, mechanism := range mechanisms(password) {
		walk(w, name, kgo.SeedBrokers(w.SASL), kgo.DialTLSConfig(trusting(w)), kgo.SASL(mechanism))
	}
	for name, mechanism := range mechanisms("wrong") {
		if name == "OAUTHBEARER" {
			continue
		}
		cl := client(w, kgo.SeedBrokers(w.SASL), kgo.DialTLSConfig(trusting(w)), kgo.SASL(mechanism))
		w.Is(cl.Ping(w.Ctx), kerr.SaslAuthenticationFailed, "a wrong password")
	}
	cl := client(w, kgo.SeedBrokers(w.TLS), kgo.DialTLSConfig(&tls.Config{}))
	if cl.Ping(w.Ctx) == nil {
		w.Fail("a client that trusts nobody is served")
	}
}

func trusting(w *checks.World) *tls.Config {
	pem, err := os.ReadFile(w.CA)
	w.OK(err, "read the authority")
	pool := x509.NewCertPool()
	w.Same(pool.AppendCertsFromPEM(pem), true, "the authority is a certificate")
	return &tls.Config{RootCAs: pool}
}

func mechanisms(password string) map[string]sasl.Mechanism {
	pair := scram.Auth{User: user, Pass: password}
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	now := time.Now().Unix()
	token := part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, now, now+60)) + "."
	return map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: user, Pass: password}.AsMechanism(),
		"SCRAM-SHA-256": pair.AsSha256Mechanism(),
		"SCRAM-SHA-512": pair.AsSha512Mechanism(),
		"OAUTHBEARER":   oauth.Auth{Token: token}.AsMechanism(),
	}
}

// walk writes and reads in a group and in a transaction.
func walk(w *checks.World, name string, options ...kgo.Opt) {
	to := topic(w, name, 1)
	written(w, client(w, append(options, kgo.ProducerBatchCompression(kgo.ZstdCompression()))...), to, 0, 10)
	cl := client(w, append(options, kgo.TransactionalID(w.Topic(name)))...)
	w.OK(cl.BeginTransaction(), "begin")
	written(w, cl, to, 10, 10)
	w.OK(cl.EndTransaction(w.Ctx, kgo.TryCommit), "commit")
	for _, more := range [][]kgo.Opt{{}, {kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}} {
		group := kgo.ConsumerGroup(w.Topic(fmt.Sprint(name, len(more))))
		reader := client(w, append(append(more, options...), group, kgo.ConsumeTopics(to))...)
		w.Same(read(w, reader, 20), each(0, 20), "records by "+name)
		w.OK(reader.CommitUncommittedOffsets(w.Ctx), "commit by "+name)
	}
}

// acls: created, described and deleted; a broker without an authorizer says so.
func acls(w *checks.World) {
	adm := admin(w)
	to := w.Topic("t")
	builder := kadm.NewACLs().Allow("User:" + user).Deny("User:mallory").AllowHosts("*").DenyHosts("*").Topics(to).
		Groups(to).TransactionalIDs(to).Clusters().Operations(kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral)
	made, err := adm.CreateACLs(w.Ctx, builder)
	w.OK(err, "create ACLs")
	for _, one := range made {
		w.Saw("created: %s %s %s %s: %s", one.Type, one.Name, one.Operation, one.Permission, checks.Or(one.Err))
	}
	filter := kadm.NewACLs().Allow().Deny().AllowHosts().DenyHosts().AnyResource(to).Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny)
	found, err := adm.DescribeACLs(w.Ctx, filter)
	w.OK(err, "describe ACLs")
	for _, one := range found {
		w.Saw("described: %d, %s", len(one.Described), checks.Or(one.Err))
	}
	gone, err := adm.DeleteACLs(w.Ctx, filter)
	w.OK(err, "delete ACLs")
	for _, one := range gone {
		w.Saw("deleted: %d, %s", len(one.Deleted), checks.Or(one.Err))
	}
}
