package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"odradek/conformance/checks"
)

// restart: a producer and a group go on while the broker is killed and comes back, and nothing is lost or doubled.
//
// It prints `restart` when both are at work, and waits for a line on standard input.
func restart(w *checks.World) {
	const count = 1_000
	to, group := topic(w, "r", 3), w.Topic("g")
	config := newest()
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.Retry.Max, config.Producer.Retry.Backoff = 100, 200*time.Millisecond
	config.Metadata.Retry.Max, config.Metadata.Retry.Backoff = 100, 200*time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Max = 100
	producer, err := sarama.NewAsyncProducer([]string{w.Broker}, config)
	w.OK(err, "a producer")
	reader := join(w, group, to, config)
	sent := make(chan error, 1)
	goOn := make(chan bool)
	go func() {
		for n, message := range numbered(to, 0, count) {
			if n == count/2 {
				<-goOn
			}
			producer.Input() <- message
		}
	}()
	go func() {
		for range count {
			select {
			case <-producer.Successes():
			case err := <-producer.Errors():
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	w.Until("the group reads", func() bool { return reader.read() >= count/4 })
	fmt.Println("restart")
	close(goOn)
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	w.OK(err, "wait for the broker")
	w.OK(<-sent, "produce")
	w.Until("all is read", func() bool { return reader.read() == count })
	w.OK(producer.Close(), "close")
	w.Same(values(messages(w, newest(), to, count)), each(0, count), "records")
	end := int64(0)
	for number := range int32(3) {
		at, err := client(w, newest()).GetOffset(to, number, sarama.OffsetNewest)
		w.OK(err, "the end")
		end += at
	}
	w.Same(end, int64(count), "records in the log")
}
