# Limits of LLM calls in DynamoDB (dynalimit): tables.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "limits_table_name" {
  description = "Name of the table: Limits, buckets, entities and their history"
  type        = string
  default     = "limits"
}

variable "budget_control_table_name" {
  description = "Name of the table: Budgets: organisations, apps, prices and who changed them"
  type        = string
  default     = "budget-control"
}

variable "budget_usage_table_name" {
  description = "Name of the table: Budgets: what was spent"
  type        = string
  default     = "budget-usage"
}

variable "deletion_protection" {
  description = "Whether the tables are protected from being deleted"
  type        = bool
  default     = true
}

variable "kms_key_arn" {
  description = "ARN of the KMS key, not of an alias, that the tables are encrypted under; null for a key of Amazon's"
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that can have some"
  type        = map(string)
  default = {
    team = "search"
  }
}

# Limits, buckets, entities and their history.
resource "aws_dynamodb_table" "limits" {
  name                        = var.limits_table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = var.deletion_protection
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  tags                        = var.tags

  attribute {
    name = "PK"
    type = "S"
  }

  attribute {
    name = "SK"
    type = "S"
  }

  attribute {
    name = "GSI1PK"
    type = "S"
  }

  attribute {
    name = "GSI1SK"
    type = "S"
  }

  attribute {
    name = "GSI2PK"
    type = "S"
  }

  attribute {
    name = "GSI2SK"
    type = "S"
  }

  attribute {
    name = "GSI3PK"
    type = "S"
  }

  attribute {
    name = "GSI3SK"
    type = "S"
  }

  global_secondary_index {
    name            = "GSI1"
    hash_key        = "GSI1PK"
    range_key       = "GSI1SK"
    projection_type = "INCLUDE"
    non_key_attributes = [
      "entity_id",
      "name",
      "parent_id",
      "cascade",
      "metadata",
      "created_at",
      "plan",
      "metadata_json",
      "version",
      "deleting",
      "managed_by",
    ]
  }

  global_secondary_index {
    name            = "GSI2"
    hash_key        = "GSI2PK"
    range_key       = "GSI2SK"
    projection_type = "KEYS_ONLY"
  }

  global_secondary_index {
    name            = "GSI3"
    hash_key        = "GSI3PK"
    range_key       = "GSI3SK"
    projection_type = "KEYS_ONLY"
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }

  lifecycle {
    prevent_destroy = true
  }
}

# Budgets: organisations, apps, prices and who changed them.
resource "aws_dynamodb_table" "budget_control" {
  name                        = var.budget_control_table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = var.deletion_protection
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  tags                        = var.tags

  attribute {
    name = "PK"
    type = "S"
  }

  attribute {
    name = "SK"
    type = "S"
  }

  ttl {
    attribute_name = "ttl_epoch"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }

  lifecycle {
    prevent_destroy = true
  }
}

# Budgets: what was spent.
resource "aws_dynamodb_table" "budget_usage" {
  name                        = var.budget_usage_table_name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = var.deletion_protection
  stream_enabled              = true
  stream_view_type            = "NEW_AND_OLD_IMAGES"
  tags                        = var.tags

  attribute {
    name = "PK"
    type = "S"
  }

  attribute {
    name = "SK"
    type = "S"
  }

  ttl {
    attribute_name = "ttl_epoch"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  server_side_encryption {
    enabled     = var.kms_key_arn != null
    kms_key_arn = var.kms_key_arn
  }

  lifecycle {
    prevent_destroy = true
  }
}

output "limits_table_arn" {
  description = "Limits, buckets, entities and their history"
  value       = aws_dynamodb_table.limits.arn
}

output "limits_stream_arn" {
  description = "The stream of its changes"
  value       = aws_dynamodb_table.limits.stream_arn
}

output "budget_control_table_arn" {
  description = "Budgets: organisations, apps, prices and who changed them"
  value       = aws_dynamodb_table.budget_control.arn
}

output "budget_control_stream_arn" {
  description = "The stream of its changes"
  value       = aws_dynamodb_table.budget_control.stream_arn
}

output "budget_usage_table_arn" {
  description = "Budgets: what was spent"
  value       = aws_dynamodb_table.budget_usage.arn
}

output "budget_usage_stream_arn" {
  description = "The stream of its changes"
  value       = aws_dynamodb_table.budget_usage.stream_arn
}
