// Package postgres is a placeholder.
package postgres
