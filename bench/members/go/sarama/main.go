// A member with sarama's consumer group. Package protocol describes its task and its reports.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"sarameya/bench/members/go/protocol"
)

type handler struct {
	reporter *protocol.Reporter
}

func (handler handler) Setup(session sarama.ConsumerGroupSession) error {
	handler.reporter.Assigned(len(session.Claims()[handler.reporter.Task.Topic]))
	return nil
}

func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	pace := handler.reporter.Pace(claim.Partition())
	if pace < 0 {
		<-session.Context().Done()
		return nil
	}
	for message := range claim.Messages() {
		handler.reporter.Handle(message.Partition, message.Value)
		if pace > 0 {
			time.Sleep(pace)
		}
		if handler.reporter.Task.Commits {
			session.MarkMessage(message, "")
		}
	}
	return nil
}

func main() {
	// Log problems to standard error.
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	reporter := protocol.Begin("github.com/IBM/sarama")
	task := reporter.Task
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = task.Commits
	group, err := sarama.NewConsumerGroup(strings.Split(task.Bootstrap, ","), task.Group, config)
	if err != nil {
		log.Fatal(err)
	}
	for {
		if err := group.Consume(context.Background(), []string{task.Topic}, handler{reporter}); err != nil {
			log.Fatal(err)
		}
	}
}
