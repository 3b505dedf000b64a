// The driver of the Go client: a request and its answer are one line of JSON each (PROTOCOL.md).
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"sync"
)

func main() {
	operations := newOperations()
	requests := bufio.NewReaderSize(os.Stdin, 1<<16)
	var lock sync.Mutex
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		go func() {
			answered := answer(operations, line)
			lock.Lock()
			defer lock.Unlock()
			os.Stdout.Write(answered)
		}()
	}
}

func answer(operations *operations, line []byte) []byte {
	var request map[string]any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	reply := map[string]any{}
	if err := decoder.Decode(&request); err != nil {
		reply["error"] = describe(badRequest(err.Error()))
	} else {
		reply["request"] = request["request"]
		op, _ := request["op"].(string)
		delete(request, "request")
		delete(request, "op")
		if ok, err := operations.run(op, newFields(request)); err != nil {
			reply["error"] = describe(err)
		} else {
			reply["ok"] = ok
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(reply); err != nil { // a value without a JSON form
		text.Reset()
		_ = encoder.Encode(map[string]any{"request": reply["request"], "error": describe(err)})
	}
	return text.Bytes()
}
