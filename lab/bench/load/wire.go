package main

// Codec of the Pulsar frames that a load client needs. The numbers of commands and fields are those of PulsarApi.proto (4.0).

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

const (
	cmdConnect         = 2
	cmdConnected       = 3
	cmdSubscribe       = 4
	cmdProducer        = 5
	cmdSend            = 6
	cmdSendReceipt     = 7
	cmdMessage         = 9
	cmdAck             = 10
	cmdFlow            = 11
	cmdSuccess         = 13
	cmdError           = 14
	cmdCloseProducer   = 15
	cmdCloseConsumer   = 16
	cmdProducerSuccess = 17
	cmdPing            = 18
	cmdPong            = 19
	cmdLookup          = 23
	cmdLookupResponse  = 24

	protocolVersion = 21
	notReady        = 6 // ServiceNotReady of ServerError
	lookupConnect   = 1

	checksumMagic = 0x0e01
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errShort = errors.New("truncated message")

// message is an encoded protobuf message. Its methods append a field.
type message []byte

func (m message) number(field int, value uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3), value)
}

func (m message) bytes(field int, value []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	m = binary.AppendUvarint(m, uint64(len(value)))
	return append(m, value...)
}

func (m message) text(field int, value string) message { return m.bytes(field, []byte(value)) }

// appendCommand appends a frame with only a command. The field number of a command's body is its type.
func appendCommand(out []byte, kind int, body message) []byte {
	command := message(nil).number(1, uint64(kind)).bytes(kind, body)
	out = binary.BigEndian.AppendUint32(out, uint32(len(command)+4))
	out = binary.BigEndian.AppendUint32(out, uint32(len(command)))
	return append(out, command...)
}

// appendSend appends a SEND frame with its checksum.
func appendSend(out []byte, body message, metadata message, payload []byte) []byte {
	command := message(nil).number(1, cmdSend).bytes(cmdSend, body)
	total := 4 + len(command) + 2 + 4 + 4 + len(metadata) + len(payload)
	out = binary.BigEndian.AppendUint32(out, uint32(total))
	out = binary.BigEndian.AppendUint32(out, uint32(len(command)))
	out = append(out, command...)
	out = binary.BigEndian.AppendUint16(out, checksumMagic)
	hole := len(out)
	out = append(out, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(len(metadata)))
	out = append(out, metadata...)
	out = append(out, payload...)
	binary.BigEndian.PutUint32(out[hole:], crc32.Checksum(out[hole+4:], castagnoli))
	return out
}

// each calls seen for every field, with its number and its value (varint, fixed) or its bytes (length-delimited).
func each(m []byte, seen func(field int, value uint64, data []byte)) error {
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		if n <= 0 {
			return errShort
		}
		m = m[n:]
		switch tag & 7 {
		case 0:
			value, n := binary.Uvarint(m)
			if n <= 0 {
				return errShort
			}
			seen(int(tag>>3), value, nil)
			m = m[n:]
		case 1:
			if len(m) < 8 {
				return errShort
			}
			seen(int(tag>>3), binary.LittleEndian.Uint64(m), nil)
			m = m[8:]
		case 2:
			size, n := binary.Uvarint(m)
			if n <= 0 || uint64(len(m)-n) < size {
				return errShort
			}
			seen(int(tag>>3), 0, m[n:n+int(size)])
			m = m[n+int(size):]
		case 5:
			if len(m) < 4 {
				return errShort
			}
			seen(int(tag>>3), uint64(binary.LittleEndian.Uint32(m)), nil)
			m = m[4:]
		default:
			return errShort
		}
	}
	return nil
}

// fields holds the last value or bytes of each field of a message.
type fields struct {
	number map[int]uint64
	data   map[int][]byte
}

func parse(m []byte) (fields, error) {
	found := fields{map[int]uint64{}, map[int][]byte{}}
	err := each(m, func(field int, value uint64, data []byte) {
		if data != nil {
			found.data[field] = data
		} else {
			found.number[field] = value
		}
	})
	return found, err
}

// split divides a frame without its length into the command's type, its body, and the bytes after the command.
func split(frame []byte) (kind int, body []byte, rest []byte, err error) {
	if len(frame) < 4 {
		return 0, nil, nil, errShort
	}
	size := int(binary.BigEndian.Uint32(frame))
	if len(frame)-4 < size || size < 2 || frame[4] != 0x08 {
		return 0, nil, nil, errShort
	}
	command := frame[4 : 4+size]
	// Every server writes the type first, and all types are below 128, so they have one byte.
	kind = int(command[1])
	command = command[2:]
	for len(command) > 0 {
		tag, n := binary.Uvarint(command)
		if n <= 0 || tag&7 != 2 {
			return 0, nil, nil, errShort
		}
		length, more := binary.Uvarint(command[n:])
		n += more
		if more <= 0 || uint64(len(command)-n) < length {
			return 0, nil, nil, errShort
		}
		if int(tag>>3) == kind {
			return kind, command[n : n+int(length)], frame[4+size:], nil
		}
		command = command[n+int(length):]
	}
	return kind, nil, frame[4+size:], nil
}

// stored divides the bytes after a MESSAGE command into metadata and payload.
func stored(rest []byte) (metadata []byte, payload []byte, err error) {
	if len(rest) >= 6 && binary.BigEndian.Uint16(rest) == checksumMagic {
		rest = rest[6:]
	}
	if len(rest) < 4 {
		return nil, nil, errShort
	}
	size := int(binary.BigEndian.Uint32(rest))
	if len(rest)-4 < size {
		return nil, nil, errShort
	}
	return rest[4 : 4+size], rest[4+size:], nil
}
