// Package jsonvalue writes the values of candidates in JSON.
package jsonvalue

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// Value is a value in JSON. A value may be any bytes, and JSON has text only. Embed it.
type Value struct {
	Value string `json:"value"`                  // bytes that are not UTF-8 are replaced
	Bytes string `json:"value_base64,omitempty"` // the exact bytes, if the value is not UTF-8
}

// Of returns a value in JSON.
func Of(value string) Value {
	if utf8.ValidString(value) {
		return Value{Value: value}
	}
	return Value{Value: strings.ToValidUTF8(value, "\ufffd"), Bytes: base64.StdEncoding.EncodeToString([]byte(value))}
}
