// Package infra describes what a deployment consists of: tables, roles with their
// policies, and alarms; and writes it down as a CloudFormation template and as Terraform
// configuration. Both are written from one model, and the tables are those that the
// library makes. It is pure: it sends nothing and reads no clock.
package infra
