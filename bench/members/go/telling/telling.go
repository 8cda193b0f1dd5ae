// Package telling is what the members in Go are told and tell: the counterpart of telling.py, which says what each field
// means, and of programs/teller.py.
package telling

import (
	"encoding/binary"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Never is the pace of a handler that takes nothing at all.
const Never = -1

// Task is what to do, this program's one argument.
type Task struct {
	Bootstrap     string         `json:"bootstrap"`
	Topic         string         `json:"topic"`
	Group         string         `json:"group"`
	Partitions    int            `json:"partitions"`
	Options       map[string]any `json:"options"`
	Commits       bool           `json:"commits"`
	Pace          float64        `json:"pace"`
	SlowPartition int            `json:"slow_partition"`
	SlowPace      float64        `json:"slow_pace"`
	IsStamped     bool           `json:"is_stamped"`
	ReportSeconds float64        `json:"report_seconds"`
}

type line struct {
	Event      string  `json:"event"`
	At         float64 `json:"at"`
	RSSBytes   int64   `json:"rss_bytes"`
	Partitions int     `json:"partitions"`
	Others     int64   `json:"others"`
	Slow       int64   `json:"slow"`
	Sequences  []int64 `json:"sequences"`
	Lateness   []int64 `json:"lateness"`
	Version    string  `json:"version"`
}

// count has a cache line of its own, so that partitions do not slow one another down by being counted.
type count struct {
	atomic.Int64
	_ [56]byte
}

// Teller tells the lines of one member. Its methods may be called by several goroutines.
type Teller struct {
	Task    Task
	version string
	counts  []count
	mutex   sync.Mutex
	stamped line
	output  sync.Mutex
}

// Begin reads the task, and tells that the program, whose client is the module, is loaded.
func Begin(module string) *Teller {
	teller := &Teller{version: version(module)}
	if err := json.Unmarshal([]byte(os.Args[1]), &teller.Task); err != nil {
		log.Fatal(err)
	}
	if len(teller.Task.Options) > 0 {
		log.Fatal("members in Go have no options")
	}
	teller.counts = make([]count, teller.Task.Partitions)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	teller.say(line{Event: "loaded", RSSBytes: rss()})
	go func() {
		<-stop
		teller.end()
	}()
	if teller.Task.ReportSeconds > 0 {
		go teller.report()
	}
	return teller
}

// Assigned says how many partitions there are now.
func (teller *Teller) Assigned(partitions int) {
	teller.say(line{Event: "assigned", Partitions: partitions})
}

// Pace is how long the handler of a partition sleeps for each message; below 0 it takes none.
func (teller *Teller) Pace(partition int32) time.Duration {
	pace := teller.Task.Pace
	if int(partition) == teller.Task.SlowPartition {
		pace = teller.Task.SlowPace
	}
	return time.Duration(pace * float64(time.Second))
}

// Handle counts a message, and notes how late it is where it has a stamp.
func (teller *Teller) Handle(partition int32, value []byte) {
	teller.counts[partition].Add(1)
	if teller.Task.IsStamped {
		now := monotonic()
		teller.mutex.Lock()
		defer teller.mutex.Unlock()
		teller.stamped.Lateness = append(teller.stamped.Lateness, now-int64(binary.BigEndian.Uint64(value)))
		teller.stamped.Sequences = append(teller.stamped.Sequences, int64(binary.BigEndian.Uint64(value[8:])))
	}
}

func (teller *Teller) report() {
	for {
		time.Sleep(time.Duration(teller.Task.ReportSeconds * float64(time.Second)))
		teller.say(teller.handled(line{Event: "progress"}))
	}
}

func (teller *Teller) end() {
	teller.mutex.Lock()
	defer teller.mutex.Unlock()
	done := teller.handled(teller.stamped)
	done.Event, done.Version = "done", teller.version
	teller.say(done)
	os.Exit(0)
}

func (teller *Teller) handled(told line) line {
	for partition := range teller.counts {
		count := teller.counts[partition].Load()
		if partition == teller.Task.SlowPartition {
			told.Slow += count
		} else {
			told.Others += count
		}
	}
	return told
}

func (teller *Teller) say(told line) {
	told.At = float64(monotonic()) / 1e9
	if told.Sequences == nil {
		told.Sequences, told.Lateness = []int64{}, []int64{}
	}
	text, err := json.Marshal(told)
	if err != nil {
		log.Fatal(err)
	}
	teller.output.Lock()
	defer teller.output.Unlock()
	if _, err := os.Stdout.Write(append(text, '\n')); err != nil {
		log.Fatal(err)
	}
}

// monotonic is the clock that all programs of a machine share, which Go's own time does not tell.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return now.Nano()
}

func rss() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		log.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func version(module string) string {
	if info, known := debug.ReadBuildInfo(); known {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	return "unknown"
}
