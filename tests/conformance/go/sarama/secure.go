package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"odradek/conformance/checks"
)

// The user whom the broker's PLAIN knows too.
const user, password = "alice", `secret, "=7`

// secure: TLS, and each mechanism of SASL with the right and with a wrong password.
func secure(w *checks.World) {
	for _, mechanism := range []sarama.ScramMechanismType{sarama.SCRAM_MECHANISM_SHA_256, sarama.SCRAM_MECHANISM_SHA_512} {
		_, err := admin(w, newest()).UpsertUserScramCredentials([]sarama.AlterUserScramCredentialsUpsert{
			{Name: user, Mechanism: mechanism, Iterations: 4096, Salt: []byte("salt"), Password: []byte(password)},
		})
		w.OK(err, "alter SCRAM users")
	}
	overTLS := newest()
	overTLS.Net.TLS.Enable, overTLS.Net.TLS.Config = true, trusting(w)
	walk(w, w.TLS, overTLS)
	for _, mechanism := range []sarama.SASLMechanism{
		sarama.SASLTypePlaintext, sarama.SASLTypeSCRAMSHA256, sarama.SASLTypeSCRAMSHA512, sarama.SASLTypeOAuth,
	} {
		for _, version := range versions {
			walk(w, w.SASL, withSASL(w, version, mechanism, password))
		}
		if mechanism != sarama.SASLTypeOAuth {
			config := withSASL(w, sarama.V4_3_1_0, mechanism, "wrong")
			config.Metadata.Retry.Max = 0
			_, err := sarama.NewClient([]string{w.SASL}, config)
			w.Same(err != nil, true, "an error of a wrong password")
			w.Saw("a wrong password: %s", checks.Or(err))
		}
	}
}

func trusting(w *checks.World) *tls.Config {
	pem, err := os.ReadFile(w.CA)
	w.OK(err, "read the authority")
	pool := x509.NewCertPool()
	w.Same(pool.AppendCertsFromPEM(pem), true, "the authority is a certificate")
	return &tls.Config{RootCAs: pool}
}

func withSASL(w *checks.World, version sarama.KafkaVersion, mechanism sarama.SASLMechanism, password string) *sarama.Config {
	config := configured(version)
	config.Net.TLS.Enable, config.Net.TLS.Config = true, trusting(w)
	config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, mechanism
	config.Net.SASL.User, config.Net.SASL.Password = user, password
	config.Net.SASL.TokenProvider = tokens{}
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if mechanism == sarama.SASLTypeSCRAMSHA256 {
			return &login{hash: sha256.New, size: sha256.Size}
		}
		return &login{hash: sha512.New, size: sha512.Size}
	}
	return config
}

// walk writes and reads a record.
func walk(w *checks.World, address string, config *sarama.Config) {
	to := topic(w, "in-"+string(config.Net.SASL.Mechanism)+config.Version.String(), 1)
	cl, err := sarama.NewClient([]string{address}, config)
	w.OK(err, "a client")
	defer cl.Close()
	producer, err := sarama.NewSyncProducerFromClient(cl)
	w.OK(err, "a producer")
	defer producer.Close()
	w.OK(producer.SendMessages(numbered(to, 0, 10)), "produce")
	consumer, err := sarama.NewConsumerFromClient(cl)
	w.OK(err, "a consumer")
	defer consumer.Close()
	one, err := consumer.ConsumePartition(to, 0, sarama.OffsetOldest)
	w.OK(err, "consume")
	defer one.Close()
	for n := range 10 {
		select {
		case message := <-one.Messages():
			w.Same(string(message.Value), fmt.Sprintf("%05d", n), "value")
		case <-w.Ctx.Done():
			w.Fail("no record came")
		}
	}
}

type tokens struct{}

func (tokens) Token() (*sarama.AccessToken, error) {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	now := time.Now().Unix()
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, now, now+60)
	return &sarama.AccessToken{Token: part(`{"alg":"none"}`) + "." + part(claims) + "."}, nil
}

// A login by SCRAM (RFC 5802), which Sarama leaves to its user.
type login struct {
	hash                     func() hash.Hash
	size                     int
	name, password, messages string
	proven                   []byte
	done                     bool
}

const nonce = "fyko+d2lbbFgONRv9qkxdawL"

func (l *login) Begin(name, password, _ string) error {
	l.name, l.password = strings.NewReplacer("=", "=3D", ",", "=2C").Replace(name), password
	return nil
}

func (l *login) Done() bool { return l.done }

func (l *login) Step(challenge string) (string, error) {
	switch {
	case challenge == "":
		l.messages = "n=" + l.name + ",r=" + nonce
		return "n,," + l.messages, nil
	case l.proven == nil:
		return l.proof(challenge)
	default:
		l.done = true
		if challenge != "v="+base64.StdEncoding.EncodeToString(l.proven) {
			return "", errors.New("the broker does not know the password")
		}
		return "", nil
	}
}

func (l *login) proof(challenge string) (string, error) {
	parts := map[string]string{}
	for part := range strings.SplitSeq(challenge, ",") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	salt, _ := base64.StdEncoding.DecodeString(parts["s"])
	rounds, _ := strconv.Atoi(parts["i"])
	salted, err := pbkdf2.Key(l.hash, l.password, salt, rounds, l.size)
	if err != nil {
		return "", err
	}
	final := "c=biws,r=" + parts["r"]
	l.messages += "," + challenge + "," + final
	key := l.mac(salted, "Client Key")
	digest := l.hash()
	digest.Write(key)
	signature := l.mac(digest.Sum(nil), l.messages)
	for n := range key {
		key[n] ^= signature[n]
	}
	l.proven = l.mac(l.mac(salted, "Server Key"), l.messages)
	return final + ",p=" + base64.StdEncoding.EncodeToString(key), nil
}

func (l *login) mac(key []byte, text string) []byte {
	made := hmac.New(l.hash, key)
	made.Write([]byte(text))
	return made.Sum(nil)
}
