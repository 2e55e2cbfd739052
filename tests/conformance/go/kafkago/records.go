package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
	"odradek/conformance/checks"
)

// codecs: records come back as they were, by the writer and reader and by single requests.
func codecs(w *checks.World) {
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		to := topic(w, fmt.Sprintf("c%d", codec), 1)
		by := writer(w, to)
		by.Compression = codec
		sent := numbered(0, 100)
		sent[1].Key = nil
		sent[2].Headers = []kafka.Header{{Key: "a", Value: []byte("b")}}
		sent[3].Value = bytes.Repeat([]byte("much "), 40_000)
		w.OK(by.WriteMessages(w.Ctx, sent...), "produce")
		from := reader(w, kafka.ReaderConfig{Topic: to, MaxBytes: 10e6})
		for n, message := range sent {
			got, err := from.ReadMessage(w.Ctx)
			w.OK(err, "read")
			if !bytes.Equal(got.Key, message.Key) || !bytes.Equal(got.Value, message.Value) || len(got.Headers) != len(message.Headers) {
				w.Fail("codec %v: record %d is another", codec, n)
			}
		}
		fetched, err := client(w).Fetch(w.Ctx, &kafka.FetchRequest{Topic: to, MinBytes: 1, MaxBytes: 1e7, MaxWait: time.Second})
		w.OK(err, "fetch")
		w.OK(fetched.Error, "fetch")
		w.Same(fetched.HighWatermark, int64(100), "high watermark")
		w.Same(fetched.LogStartOffset, int64(0), "log start offset")
	}
}

// times: the first and last offset, one by time, and where a reader begins.
func times(w *checks.World) {
	to := topic(w, "t", 1)
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	for n, after := range []int{0, 30, 10, 20} {
		message := kafka.Message{Value: []byte{byte(n)}, Time: base.Add(time.Duration(after) * time.Second)}
		w.OK(writer(w, to).WriteMessages(w.Ctx, message), "produce")
	}
	found, err := client(w).ListOffsets(w.Ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		to: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0), kafka.TimeOffsetOf(0, base.Add(15*time.Second))},
	}})
	w.OK(err, "list offsets")
	one := found.Topics[to][0]
	w.Saw("first %d, last %d, others %d, error %s", one.FirstOffset, one.LastOffset, len(one.Offsets), checks.Or(one.Error))
	from := reader(w, kafka.ReaderConfig{Topic: to})
	w.OK(from.SetOffsetAt(w.Ctx, base.Add(15*time.Second)), "seek to a time")
	message, err := from.ReadMessage(w.Ctx)
	w.OK(err, "read")
	w.Same(message.Offset, int64(1), "the first record from a time on")
	lag, err := from.ReadLag(w.Ctx)
	w.OK(err, "lag")
	w.Same(lag, int64(2), "lag")
	beyond := reader(w, kafka.ReaderConfig{Topic: to, OffsetOutOfRangeError: true})
	w.OK(beyond.SetOffset(99), "seek")
	_, err = beyond.ReadMessage(w.Ctx)
	w.Is(err, kafka.OffsetOutOfRange, "an offset beyond the end")
}

// restart: a writer and a group go on while the broker is killed and comes back. This client is not idempotent.
//
// It prints `restart` when both are at work, and waits for a line on standard input.
func restart(w *checks.World) {
	const count = 400
	to, group := topic(w, "r", 3), w.Topic("g")
	by := writer(w, to)
	by.MaxAttempts, by.BatchSize = 200, 10
	from := reader(w, kafka.ReaderConfig{GroupID: group, Topic: to, StartOffset: kafka.FirstOffset, MaxAttempts: 200})
	done := make(chan error, 1)
	go_on := make(chan bool)
	go func() {
		for n := 0; n < count; n += 10 {
			if n == count/2 {
				<-go_on
			}
			if err := by.WriteMessages(w.Ctx, numbered(n, 10)...); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	values := read(w, from, count/4)
	fmt.Println("restart")
	close(go_on)
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	w.OK(err, "wait for the broker")
	for len(values) < count {
		message, err := from.FetchMessage(w.Ctx)
		w.OK(err, fmt.Sprintf("read (%d of %d are here)", len(values), count))
		values[string(message.Value)] = 1
		// A commit over a connection that is gone fails; the next one commits for both.
		if err := from.CommitMessages(w.Ctx, message); err != nil {
			fmt.Println("saw restart: a commit failed")
		}
	}
	w.OK(<-done, "produce")
	w.Same(values, each(0, count), "records")
}
