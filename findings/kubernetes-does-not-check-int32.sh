#!/bin/bash
# Kubernetes does not check that a number fits the format int32 of a custom resource, though it checks formats of text.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > go.mod <<'MODULE'
module findings

go 1.25.0

require k8s.io/apiextensions-apiserver v0.35.0
MODULE
cat > main.go <<'PROGRAM'
package main

import (
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	props := &apiextensions.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensions.JSONSchemaProps{
			"count": {Type: "integer", Format: "int32"},
			"id":    {Type: "string", Format: "uuid"},
		},
	}
	validator, _, err := validation.NewSchemaValidator(props)
	must(validator, err)
	seen := ""
	for _, text := range []string{`{"count": 3000000000}`, `{"id": "none"}`} {
		object := map[string]any{}
		must(object, json.Unmarshal([]byte(text), &object))
		seen += fmt.Sprintf("%s: %d errors; ", text, len(validation.ValidateCustomResource(nil, object, validator)))
	}
	expected := `{"count": 3000000000}: 0 errors; {"id": "none"}: 1 errors; `
	fmt.Println("apiextensions-apiserver 0.35.0")
	fmt.Println("guess: an integer of format int32 refuses 3000000000, as a string of format uuid refuses other text")
	fmt.Println("seen: ", seen)
	if seen != expected {
		fmt.Println("changed: it was", expected)
		os.Exit(1)
	}
}
PROGRAM
export GOFLAGS=-mod=mod GOTOOLCHAIN=local
go mod tidy 2> tidy.log || { cat tidy.log; exit 1; }
go build -o program .
./program
# Here: each integer of a spec has its own maximum (crds).
