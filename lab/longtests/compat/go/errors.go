package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/apache/pulsar-client-go/pulsar"
)

// unsupported: the client's API does not offer the operation or option.
type unsupported string

func (e unsupported) Error() string { return string(e) }

// badRequest: the request is invalid.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// The kind of each result of the client that has one.
var resultKinds = map[pulsar.Result]string{
	pulsar.InvalidConfiguration:                  "InvalidConfiguration",
	pulsar.TimeoutError:                          "Timeout",
	pulsar.LookupError:                           "ServiceNotReady",
	pulsar.ConnectError:                          "Connect",
	pulsar.AuthenticationError:                   "Authentication",
	pulsar.AuthorizationError:                    "Authorization",
	pulsar.ErrorGettingAuthenticationData:        "Authentication",
	pulsar.BrokerMetadataError:                   "Metadata",
	pulsar.BrokerPersistenceError:                "Persistence",
	pulsar.ChecksumError:                         "Checksum",
	pulsar.ConsumerBusy:                          "ConsumerBusy",
	pulsar.NotConnectedError:                     "NotConnected",
	pulsar.AlreadyClosedError:                    "AlreadyClosed",
	pulsar.InvalidMessage:                        "InvalidMessage",
	pulsar.TooManyLookupRequestException:         "TooManyRequests",
	pulsar.InvalidTopicName:                      "InvalidTopicName",
	pulsar.InvalidURL:                            "InvalidConfiguration",
	pulsar.ServiceUnitNotReady:                   "ServiceNotReady",
	pulsar.ProducerBlockedQuotaExceededError:     "ProducerBlocked",
	pulsar.ProducerBlockedQuotaExceededException: "ProducerBlocked",
	pulsar.MessageTooBig:                         "MessageTooBig",
	pulsar.TopicNotFound:                         "TopicNotFound",
	pulsar.SubscriptionNotFound:                  "SubscriptionNotFound",
	pulsar.ConsumerNotFound:                      "ConsumerNotFound",
	pulsar.TopicTerminated:                       "TopicTerminated",
	pulsar.CryptoError:                           "Crypto",
	pulsar.ConsumerClosed:                        "AlreadyClosed",
	pulsar.ProducerClosed:                        "AlreadyClosed",
	pulsar.SchemaFailure:                         "IncompatibleSchema",
	pulsar.InvalidStatus:                         "InvalidTransaction",
	pulsar.TransactionNoFoundError:               "TransactionNotFound",
	pulsar.ProducerFenced:                        "ProducerFenced",
}

// The kind of each error of a broker. The client returns most of them as text only.
var serverKinds = map[string]string{
	"MetadataError":                         "Metadata",
	"PersistenceError":                      "Persistence",
	"AuthenticationError":                   "Authentication",
	"AuthorizationError":                    "Authorization",
	"ConsumerBusy":                          "ConsumerBusy",
	"ServiceNotReady":                       "ServiceNotReady",
	"ProducerBlockedQuotaExceededError":     "ProducerBlocked",
	"ProducerBlockedQuotaExceededException": "ProducerBlocked",
	"ChecksumError":                         "Checksum",
	"TopicNotFound":                         "TopicNotFound",
	"SubscriptionNotFound":                  "SubscriptionNotFound",
	"ConsumerNotFound":                      "ConsumerNotFound",
	"TooManyRequests":                       "TooManyRequests",
	"TopicTerminatedError":                  "TopicTerminated",
	"ProducerBusy":                          "ProducerBusy",
	"InvalidTopicName":                      "InvalidTopicName",
	"IncompatibleSchema":                    "IncompatibleSchema",
	"InvalidTxnStatus":                      "InvalidTransaction",
	"NotAllowedError":                       "NotAllowed",
	"TransactionConflict":                   "TransactionConflict",
	"TransactionNotFound":                   "TransactionNotFound",
	"ProducerFenced":                        "ProducerFenced",
}

// Errors that have neither a result nor a name of a broker's error.
var textKinds = []struct{ part, kind string }{
	{"request timed out", "Timeout"},
	{"connection error", "Connect"},
	{"connection refused", "Connect"},
	{"nvalid topic name", "InvalidTopicName"},
	{"consumer state is closed", "AlreadyClosed"},
	{"closing or closed", "AlreadyClosed"},
	{"closing or has closed", "AlreadyClosed"},
	{"ranges", "InvalidConfiguration"},
}

var words = regexp.MustCompile(`[A-Za-z]+`)

// describe returns the error of an answer.
func describe(err error) map[string]any {
	kind, raw := classify(err)
	return map[string]any{"kind": kind, "raw": raw, "message": err.Error()}
}

func classify(err error) (kind string, raw string) {
	var known *pulsar.Error
	switch err.(type) {
	case unsupported:
		return "Unsupported", "unsupported"
	case badRequest:
		return "BadRequest", "badRequest"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "Timeout", "DeadlineExceeded"
	}
	for _, word := range words.FindAllString(err.Error(), -1) {
		if kind, there := serverKinds[word]; there {
			return kind, word
		}
	}
	if errors.As(err, &known) {
		if kind, there := resultKinds[known.Result()]; there {
			return kind, fmt.Sprintf("Result(%d)", known.Result())
		}
	}
	for _, text := range textKinds {
		if strings.Contains(err.Error(), text.part) {
			return text.kind, fmt.Sprintf("%T", err)
		}
	}
	return "Other", fmt.Sprintf("%T", err)
}
