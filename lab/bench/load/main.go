// Command load generates load for Pulsar brokers, by consumers and producers that use little CPU.
//
// For each line on standard input it prints its counters as a line of JSON. It exits at the end of standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

func main() {
	roles := map[string]func([]string) error{"consume": consume, "produce": produce}
	if len(os.Args) < 2 || roles[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: load consume|produce -broker HOST:PORT -topic TOPIC ... (-help lists all flags)")
		os.Exit(2)
	}
	if err := roles[os.Args[1]](os.Args[2:]); err != nil {
		fail(os.Args[1], err)
		os.Exit(1)
	}
}

func fail(what string, err error) { fmt.Fprintf(os.Stderr, "load: %s: %v\n", what, err) }

func numbered(name string, number int) string {
	return strings.ReplaceAll(name, "#", fmt.Sprint(number))
}

func tell(what map[string]any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

// obey answers each line of standard input with the counters, the CPU time of the process in seconds, and the time.
func obey(told func() map[string]any) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer := told()
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			return err
		}
		answer["cpu"] = float64(usage.Utime.Nano()+usage.Stime.Nano()) / float64(time.Second)
		answer["now_ns"] = time.Now().UnixNano()
		tell(answer)
	}
	return lines.Err()
}
