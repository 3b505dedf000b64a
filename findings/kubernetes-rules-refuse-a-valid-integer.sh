#!/bin/bash
# Kubernetes takes the JSON number 1.0 for an integer in the schema of a custom resource, but not in a CEL rule on the same field.
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
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	limits "k8s.io/apiserver/pkg/apis/cel"
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
		Properties: map[string]apiextensions.JSONSchemaProps{"a": {
			Type:         "integer",
			XValidations: apiextensions.ValidationRules{{Rule: "self > 0"}},
		}},
	}
	structural := must(schema.NewStructural(props))
	validator, _, err := validation.NewSchemaValidator(props)
	must(validator, err)
	seen := ""
	for _, text := range []string{`{"a": 1}`, `{"a": 1.0}`} {
		object := map[string]any{}
		must(object, json.Unmarshal([]byte(text), &object))
		bySchema := validation.ValidateCustomResource(nil, object, validator)
		rules := cel.NewValidator(structural, true, limits.PerCallLimit)
		byRule, _ := rules.Validate(context.Background(), field.NewPath("spec"), structural, object, nil, limits.RuntimeCELCostBudget)
		seen += fmt.Sprintf("%s: %d errors of the schema, %d of the rule; ", text, len(bySchema), len(byRule))
	}
	expected := `{"a": 1}: 0 errors of the schema, 0 of the rule; {"a": 1.0}: 0 errors of the schema, 1 of the rule; `
	fmt.Println("apiextensions-apiserver 0.35.0")
	fmt.Println("guess: a number that the schema takes for an integer is one in the rule self > 0 too")
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
# Here: the operator writes integers of Python, which have no point in JSON; who sends 3.0 with a rule on it gets the API server's error.
