// Reads Kubernetes objects, a JSON List on standard input, and writes for each what kstatus makes of it: a JSON object of
// {status, message} by KIND/NAME.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kstatus:", err)
		os.Exit(1)
	}
}

func run() error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	// its own decoder: it keeps whole numbers whole, which kstatus insists on
	var list unstructured.UnstructuredList
	if err := list.UnmarshalJSON(input); err != nil {
		return err
	}
	found := map[string]map[string]string{}
	for _, object := range list.Items {
		result, err := status.Compute(&object)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", object.GetKind(), object.GetName(), err)
		}
		found[object.GetKind()+"/"+object.GetName()] = map[string]string{
			"status":  result.Status.String(),
			"message": result.Message,
		}
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}
