package main

import (
	"encoding/base64"
	"encoding/json"
	"reflect"

	"github.com/apache/pulsar-client-go/pulsar"
)

// values is the conversion of the values of one topic.
type values struct {
	schema pulsar.Schema // nil for plain bytes
	kind   string        // bytes, string, json or avro
	types  map[string]string
}

// valuesOf returns the conversion for a schema of the protocol.
func valuesOf(spec any, otherwise string) values {
	if spec == nil {
		spec = otherwise
	}
	switch spec := spec.(type) {
	case string:
		switch spec {
		case "bytes":
			return values{kind: spec}
		case "string":
			return values{kind: spec, schema: pulsar.NewStringSchema(nil)}
		}
		panic(unsupported("schema " + spec))
	case map[string]any:
		return recordValues(spec)
	}
	panic(badRequest("schema is neither a name nor an object"))
}

func recordValues(spec map[string]any) values {
	definition := as[map[string]any]("definition", spec["definition"])
	text, err := json.Marshal(definition)
	if err != nil {
		panic(badRequest(err.Error()))
	}
	types := map[string]string{}
	for _, field := range as[[]any]("fields", definition["fields"]) {
		field := as[map[string]any]("fields", field)
		types[as[string]("name", field["name"])] = typeName(field["type"])
	}
	if spec["type"] == "avro" {
		schema, err := pulsar.NewAvroSchemaWithValidation(string(text), nil)
		if err != nil {
			panic(badRequest(err.Error()))
		}
		return values{schema: schema, kind: "avro", types: types}
	}
	schema, err := pulsar.NewJSONSchemaWithValidation(string(text), nil)
	if err != nil {
		panic(badRequest(err.Error()))
	}
	return values{schema: schema, kind: "json", types: types}
}

// typeName returns the type of a field; of a union, the one that is not null.
func typeName(declared any) string {
	if union, is := declared.([]any); is {
		for _, member := range union {
			if member != "null" {
				return typeName(member)
			}
		}
	}
	return as[string]("type", declared)
}

// content sets a message's value.
func (v values) content(message *pulsar.ProducerMessage, value any) {
	switch v.kind {
	case "bytes":
		payload, err := base64.StdEncoding.DecodeString(as[string]("value", value))
		if err != nil {
			panic(badRequest("value: " + err.Error()))
		}
		message.Payload = payload
	case "string":
		message.Value = as[string]("value", value)
	default:
		record := map[string]any{}
		for name, kind := range v.types {
			record[name] = fieldValue(as[map[string]any]("value", value)[name], kind)
		}
		message.Value = record
	}
}

func fieldValue(value any, kind string) any {
	if value == nil {
		return nil
	}
	switch kind {
	case "int":
		return int(number(kind, value))
	case "long":
		return number(kind, value)
	}
	return value
}

// value returns a message's value as in the protocol.
func (v values) value(message pulsar.Message) any {
	switch v.kind {
	case "bytes":
		return base64.StdEncoding.EncodeToString(message.Payload())
	case "string":
		var text *string
		must(message.GetSchemaValue(&text))
		return *text
	}
	record := map[string]any{}
	must(message.GetSchemaValue(&record))
	for name, kind := range v.types {
		if union, is := record[name].(map[string]any); is {
			record[name] = union[kind] // the form of a union's value in the older release
		}
	}
	return record
}

// tableType returns the type into which a table view decodes a value.
func (v values) tableType() reflect.Type {
	switch v.kind {
	case "bytes":
		return reflect.TypeOf([]byte{})
	case "string":
		return reflect.TypeOf((*string)(nil))
	}
	return reflect.TypeOf(map[string]any{})
}

// tableValue returns a value of a table view as in the protocol.
func tableValue(value any) any {
	if text, is := value.(*string); is {
		if text == nil {
			return nil
		}
		return *text
	}
	return value // JSON writes bytes as base64
}
