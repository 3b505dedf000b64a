package main

import (
	"encoding/base64"
	"encoding/json"
	"sort"
	"strings"
	"time"
)

// fields are the fields of one request. Each is taken once. This client does not offer those that are left at the end.
// An invalid field causes a panic, which run converts to an answer.
type fields map[string]any

func newFields(request map[string]any) fields {
	rest := fields{}
	for name, value := range request {
		if value != nil {
			rest[name] = value
		}
	}
	return rest
}

func (f fields) has(name string) bool {
	_, there := f[name]
	return there
}

// take returns a field's value, or nil.
func (f fields) take(name string) any {
	value := f[name]
	delete(f, name)
	return value
}

func (f fields) need(name string) any {
	if !f.has(name) {
		panic(badRequest(name + " is missing"))
	}
	return f.take(name)
}

func (f fields) text(name string, otherwise string) string {
	if !f.has(name) {
		return otherwise
	}
	return as[string](name, f.take(name))
}

func (f fields) needText(name string) string {
	return as[string](name, f.need(name))
}

func (f fields) number(name string, otherwise int64) int64 {
	if !f.has(name) {
		return otherwise
	}
	return number(name, f.take(name))
}

func (f fields) needNumber(name string) int64 {
	return number(name, f.need(name))
}

// duration takes a field of milliseconds.
func (f fields) duration(name string, otherwiseMs int64) time.Duration {
	return time.Duration(f.number(name, otherwiseMs)) * time.Millisecond
}

// timestamp takes a field of milliseconds since 1970.
func (f fields) timestamp(name string) time.Time {
	return time.UnixMilli(f.needNumber(name))
}

func (f fields) flag(name string, otherwise bool) bool {
	if !f.has(name) {
		return otherwise
	}
	return as[bool](name, f.take(name))
}

func (f fields) bytes(name string) []byte {
	decoded, err := base64.StdEncoding.DecodeString(f.needText(name))
	if err != nil {
		panic(badRequest(name + ": " + err.Error()))
	}
	return decoded
}

// object returns a field with an object, or nil.
func (f fields) object(name string) fields {
	if !f.has(name) {
		return nil
	}
	return newFields(as[map[string]any](name, f.take(name)))
}

// texts returns a field with an object of texts, or nil.
func (f fields) texts(name string) map[string]string {
	if !f.has(name) {
		return nil
	}
	texts := map[string]string{}
	for key, value := range as[map[string]any](name, f.take(name)) {
		texts[key] = as[string](name, value)
	}
	return texts
}

func (f fields) list(name string) []any {
	return as[[]any](name, f.need(name))
}

func (f fields) listOfTexts(name string) []string {
	var texts []string
	for _, value := range f.list(name) {
		texts = append(texts, as[string](name, value))
	}
	return texts
}

// onlyDefault takes a field for which this client supports the default only.
func (f fields) onlyDefault(name string, only any) {
	if value := f.take(name); value != nil && value != only {
		panic(unsupported("no option for " + name))
	}
}

// end panics if any field is left.
func (f fields) end() {
	if len(f) == 0 {
		return
	}
	var names []string
	for name := range f {
		names = append(names, name)
	}
	sort.Strings(names)
	panic(unsupported("no option for " + strings.Join(names, ", ")))
}

func as[T any](name string, value any) T {
	typed, right := value.(T)
	if !right {
		panic(badRequest(name + " is of another type"))
	}
	return typed
}

func number(name string, value any) int64 {
	parsed, err := as[json.Number](name, value).Int64()
	if err != nil {
		panic(badRequest(name + ": " + err.Error()))
	}
	return parsed
}
