// A member by sarama's consumer group; package telling says what it is told and tells.
package main

import (
	"context"
	"log"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"sarameya/bench/members/go/telling"
)

type handler struct {
	teller *telling.Teller
}

func (handler handler) Setup(session sarama.ConsumerGroupSession) error {
	handler.teller.Assigned(len(session.Claims()[handler.teller.Task.Topic]))
	return nil
}

func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (handler handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	pace := handler.teller.Pace(claim.Partition())
	if pace < 0 {
		<-session.Context().Done()
		return nil
	}
	for message := range claim.Messages() {
		handler.teller.Handle(message.Partition, message.Value)
		if pace > 0 {
			time.Sleep(pace)
		}
		if handler.teller.Task.Commits {
			session.MarkMessage(message, "")
		}
	}
	return nil
}

func main() {
	// What goes wrong is said.
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
	teller := telling.Begin("github.com/IBM/sarama")
	task := teller.Task
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = task.Commits
	group, err := sarama.NewConsumerGroup(strings.Split(task.Bootstrap, ","), task.Group, config)
	if err != nil {
		log.Fatal(err)
	}
	for {
		if err := group.Consume(context.Background(), []string{task.Topic}, handler{teller}); err != nil {
			log.Fatal(err)
		}
	}
}
