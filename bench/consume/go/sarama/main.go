// Reads a topic by a sarama consumer group of one member; see package reading.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/IBM/sarama"

	"sarameya/bench/consume/go/reading"
)

type reader struct {
	task  reading.Task
	tally *reading.Tally
	left  sync.WaitGroup
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (reader *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	last := reader.task.Ends[claim.Partition()] - 1
	if last >= 0 {
		reader.read(session, claim, last)
	}
	reader.left.Done()
	// A claim that returned earlier would end the session for the others.
	<-session.Context().Done()
	return nil
}

func (reader *reader) read(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim, last int64) {
	var messages, size int64
	for message := range claim.Messages() {
		if messages == 0 {
			reader.tally.First()
		}
		messages++
		size += int64(len(message.Key) + len(message.Value))
		session.MarkMessage(message, "")
		if message.Offset == last {
			break
		}
	}
	reader.tally.Add(messages, size)
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	task, tally := reading.Begin()
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(strings.Split(task.Bootstrap, ","), task.Group, config)
	if err != nil {
		log.Fatal(err)
	}
	reader := &reader{task: task, tally: tally}
	reader.left.Add(len(task.Ends))
	untilRead, stop := context.WithCancel(context.Background())
	go func() {
		reader.left.Wait()
		stop()
	}()
	if err := group.Consume(untilRead, []string{task.Topic}, reader); err != nil {
		log.Fatal(err)
	}
	if err := group.Close(); err != nil {
		log.Fatal(err)
	}
	tally.Report("github.com/IBM/sarama")
}
