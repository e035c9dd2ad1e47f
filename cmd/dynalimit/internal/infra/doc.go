// Package infra contains the templates of a deployment, for CloudFormation and for Terraform:
// tables, roles with their policies, alarms and functions. Parameters select the parts; the
// package fills in their defaults. It is pure: it sends no requests and reads no clock.
package infra
