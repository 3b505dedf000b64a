package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	readBytes    = 64 << 10
	mostBytes    = 128 << 20
	openTimeout  = 60 * time.Second
	writeTimeout = 60 * time.Second
)

// connection reads and writes frames on one socket. Only one goroutine may read; any may write.
type connection struct {
	socket net.Conn
	buffer []byte
	from   int
	to     int
	lock   sync.Mutex
}

// open connects, sends CONNECT and waits for CONNECTED. source is the local address, empty for any; version is the client's.
func open(address string, source string, version string) (*connection, error) {
	dialer := net.Dialer{Timeout: openTimeout}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	socket, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &connection{socket: socket, buffer: make([]byte, readBytes)}
	if _, err := c.request(cmdConnect, message(nil).text(1, version).number(4, protocolVersion), cmdConnected); err != nil {
		socket.Close()
		return nil, err
	}
	return c, nil
}

// openTopic connects to the broker that serves a topic. It sends the lookup to the broker at address, and follows redirects.
func openTopic(address string, topic string, source string, version string) (*connection, error) {
	authoritative := uint64(0)
	for hops := 0; hops < 10; hops++ {
		c, err := open(address, source, version)
		if err != nil {
			return nil, err
		}
		body := message(nil).text(1, topic).number(2, 1).number(3, authoritative)
		answer, err := c.request(cmdLookup, body, cmdLookupResponse)
		if err != nil {
			c.socket.Close()
			return nil, err
		}
		if len(answer.data[7]) > 0 {
			c.socket.Close()
			return nil, fmt.Errorf("lookup of %s: %s", topic, answer.data[7])
		}
		next := strings.TrimPrefix(string(answer.data[1]), "pulsar://")
		if next == address && answer.number[3] == lookupConnect {
			return c, nil
		}
		c.socket.Close()
		if answer.number[3] == lookupConnect {
			return open(next, source, version)
		}
		address, authoritative = next, answer.number[5]
	}
	return nil, fmt.Errorf("lookup of %s: more than 10 redirects", topic)
}

// next returns one frame without its length, valid until the next call. fresh reports whether it read from the socket.
func (c *connection) next() (frame []byte, fresh bool, err error) {
	for {
		if c.to-c.from >= 4 {
			size := int(binary.BigEndian.Uint32(c.buffer[c.from:]))
			if size > mostBytes {
				return nil, fresh, fmt.Errorf("frame of %d bytes, more than %d", size, mostBytes)
			}
			if c.to-c.from >= 4+size {
				frame = c.buffer[c.from+4 : c.from+4+size]
				c.from += 4 + size
				return frame, fresh, nil
			}
			if 4+size > len(c.buffer) {
				grown := make([]byte, 2*(4+size))
				c.to = copy(grown, c.buffer[c.from:c.to])
				c.from, c.buffer = 0, grown
			}
		}
		if c.from > 0 && (c.from == c.to || len(c.buffer)-c.to < readBytes/4) {
			c.to = copy(c.buffer, c.buffer[c.from:c.to])
			c.from = 0
		}
		n, err := c.socket.Read(c.buffer[c.to:])
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		if err != nil {
			return nil, fresh, err
		}
		c.to += n
		fresh = true
	}
}

func (c *connection) write(data []byte) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.socket.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.socket.Write(data)
	return err
}

// request sends a command and waits for its answer. Call it before any other goroutine reads from the connection.
func (c *connection) request(kind int, body message, wanted int) (fields, error) {
	if err := c.write(appendCommand(nil, kind, body)); err != nil {
		return fields{}, err
	}
	c.socket.SetReadDeadline(time.Now().Add(openTimeout))
	defer c.socket.SetReadDeadline(time.Time{})
	for {
		frame, _, err := c.next()
		if err != nil {
			return fields{}, err
		}
		got, answer, _, err := split(frame)
		if err != nil {
			return fields{}, err
		}
		switch got {
		case wanted:
			return parse(answer)
		case cmdPing:
			if err := c.pong(); err != nil {
				return fields{}, err
			}
		case cmdError:
			found, _ := parse(answer)
			return fields{}, fmt.Errorf("error %d: %s", found.number[2], found.data[3])
		case cmdPong:
		default:
			return fields{}, fmt.Errorf("command %d instead of %d", got, wanted)
		}
	}
}

func (c *connection) ping() error { return c.write(appendCommand(nil, cmdPing, nil)) }
func (c *connection) pong() error { return c.write(appendCommand(nil, cmdPong, nil)) }
