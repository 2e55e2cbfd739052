package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"odradek/conformance/checks"
)

// The user whom the broker's PLAIN knows too.
const user, password = "alice", `secret, "=7`

// secure: TLS, and each mechanism of SASL that this client has, with the right and with a wrong password.
func secure(w *checks.World) {
	salted256, err := pbkdf2.Key(sha256.New, password, []byte("salt"), 4096, sha256.Size)
	w.OK(err, "a key")
	salted512, err := pbkdf2.Key(sha512.New, password, []byte("salt"), 4096, sha512.Size)
	w.OK(err, "a key")
	for mechanism, salted := range map[kafka.ScramMechanism][]byte{kafka.ScramMechanismSha256: salted256, kafka.ScramMechanismSha512: salted512} {
		done, err := client(w).AlterUserScramCredentials(w.Ctx, &kafka.AlterUserScramCredentialsRequest{
			Upsertions: []kafka.UserScramCredentialsUpsertion{{
				Name: user, Mechanism: mechanism, Iterations: 4096, Salt: []byte("salt"), SaltedPassword: salted,
			}},
		})
		w.OK(err, "alter SCRAM users")
		w.OK(done.Results[0].Error, "alter SCRAM users")
	}
	w.OK(walk(w, w.TLS, nil), "TLS")
	for _, login := range mechanisms(w, password) {
		w.OK(walk(w, w.SASL, login), login.Name())
	}
	for _, login := range mechanisms(w, "wrong") {
		w.Is(walk(w, w.SASL, login), kafka.SASLAuthenticationFailed, "a wrong password by "+login.Name())
	}
}

func mechanisms(w *checks.World, password string) []sasl.Mechanism {
	small, err := scram.Mechanism(scram.SHA256, user, password)
	w.OK(err, "SCRAM")
	large, err := scram.Mechanism(scram.SHA512, user, password)
	w.OK(err, "SCRAM")
	return []sasl.Mechanism{plain.Mechanism{Username: user, Password: password}, small, large}
}

// walk writes and reads by the transport and by the dialer.
func walk(w *checks.World, address string, login sasl.Mechanism) error {
	pem, err := os.ReadFile(w.CA)
	w.OK(err, "read the authority")
	pool := x509.NewCertPool()
	w.Same(pool.AppendCertsFromPEM(pem), true, "the authority is a certificate")
	name := "tls"
	if login != nil {
		name = login.Name()
	}
	to := w.Topic(name)
	if _, err := client(w).CreateTopics(w.Ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: to, NumPartitions: 1, ReplicationFactor: 1}},
	}); err != nil {
		return err
	}
	settings := &tls.Config{RootCAs: pool}
	by := &kafka.Writer{
		Addr: kafka.TCP(address), Topic: to, RequiredAcks: kafka.RequireAll, BatchTimeout: 10 * time.Millisecond,
		Transport: &kafka.Transport{TLS: settings, SASL: login}, MaxAttempts: 5,
	}
	defer by.Close()
	if err := by.WriteMessages(w.Ctx, numbered(0, 10)...); err != nil {
		return err
	}
	from := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{address}, GroupID: to + "-g", Topic: to, StartOffset: kafka.FirstOffset,
		Dialer: &kafka.Dialer{TLS: settings, SASLMechanism: login, Timeout: 10 * time.Second},
	})
	defer from.Close()
	if found := read(w, from, 10); len(found) != 10 {
		return fmt.Errorf("only %d values", len(found))
	}
	return nil
}
