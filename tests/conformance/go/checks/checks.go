// Package checks runs the checks of a client one by one, against the broker that the command line names.
//
//	program -broker HOST:PORT [-tls HOST:PORT -sasl HOST:PORT -ca FILE] [-only NAME,NAME]
//
// It prints `ok NAME` or `failed NAME: why` for each check, and `saw NAME: what` for answers that two brokers should
// give alike. Its status is 1 where a check fails.
package checks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// LongestCheck bounds each check.
const LongestCheck = 90 * time.Second

// A Check has a name, which begins its topics and groups too.
type Check struct {
	Name string
	Run  func(*World)
}

// World is what a check knows: where the brokers are, and how to say what it saw.
type World struct {
	Broker, TLS, SASL, CA string
	Name                  string
	Ctx                   context.Context
	later                 []func()
	run                   string
	seen                  []string
}

type failure struct{ why string }

// Main runs the checks that the command line asks for.
func Main(all []Check) {
	broker := flag.String("broker", "", "HOST:PORT without security")
	tls := flag.String("tls", "", "HOST:PORT with TLS")
	sasl := flag.String("sasl", "", "HOST:PORT with TLS and SASL")
	authority := flag.String("ca", "", "the file of the certificate authority")
	only := flag.String("only", "", "names of checks; all of them that need no secure listener where it is empty")
	flag.Parse()
	bad := false
	run := fmt.Sprint(time.Now().UnixNano() % 1e9)
	for _, check := range all {
		w := &World{Broker: *broker, TLS: *tls, SASL: *sasl, CA: *authority, Name: check.Name, run: run}
		if *only == "" && NeedsMore(check.Name) || *only != "" && !slices.Contains(strings.Split(*only, ","), check.Name) {
			continue
		}
		why := w.outcome(check.Run)
		slices.Sort(w.seen)
		for _, line := range w.seen {
			fmt.Println(line)
		}
		if why == "" {
			fmt.Println("ok", check.Name)
		} else {
			fmt.Printf("failed %s: %s\n", check.Name, why)
			bad = true
		}
	}
	if bad {
		os.Exit(1)
	}
}

// NeedsMore tells whether a check needs secure listeners, or somebody who restarts the broker.
func NeedsMore(name string) bool { return name == "secure" || name == "acls" || name == "restart" }

func (w *World) outcome(run func(*World)) (why string) {
	ctx, cancel := context.WithTimeout(context.Background(), LongestCheck)
	w.Ctx = ctx
	defer cancel()
	defer func() {
		for _, end := range slices.Backward(w.later) {
			end()
		}
	}()
	defer func() {
		switch found := recover().(type) {
		case nil:
		case failure:
			why = found.why
		default:
			panic(found)
		}
	}()
	run(w)
	return ""
}

// Later has the end of the check call `end`, the last one first.
func (w *World) Later(end func()) { w.later = append(w.later, end) }

// Topic returns a name that no other run has.
func (w *World) Topic(suffix string) string { return w.Name + "-" + suffix + "-" + w.run }

// Saw notes an answer that every broker should give alike, without the number of this run. They are printed sorted.
func (w *World) Saw(format string, values ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, values...), w.run, "RUN")
	w.seen = append(w.seen, fmt.Sprintf("saw %s: %s", w.Name, text))
}

// Fail ends the check.
func (w *World) Fail(format string, values ...any) { panic(failure{fmt.Sprintf(format, values...)}) }

// OK ends the check where there is an error.
func (w *World) OK(err error, doing string) {
	if err != nil {
		w.Fail("%s: %v", doing, err)
	}
}

// Is ends the check where the error is not the expected one.
func (w *World) Is(err, expected error, doing string) {
	if !errors.Is(err, expected) {
		w.Fail("%s: %v instead of %v", doing, err, expected)
	}
}

// Same ends the check where two values differ.
func (w *World) Same(found, expected any, what string) {
	if !reflect.DeepEqual(found, expected) {
		w.Fail("%s: %v instead of %v", what, found, expected)
	}
}

// Until asks again until it is true, as long as the check may take.
func (w *World) Until(what string, true_ func() bool) {
	for !true_() {
		select {
		case <-w.Ctx.Done():
			w.Fail("it never came that %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Or returns the error without what a broker says in its own words: up to the name that Kafka gives it, or " - ".
func Or(err error) string {
	if err == nil {
		return "none"
	}
	text := err.Error()
	if end := kafkaName.FindStringIndex(text); end != nil {
		return text[:end[1]]
	}
	text, _, _ = strings.Cut(text, " - ")
	return text
}

var kafkaName = regexp.MustCompile(`[A-Z][A-Z_0-9]{7,}|^\[\d+\][^:]*`)
