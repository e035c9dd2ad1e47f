# Limits of LLM calls in DynamoDB (dynalimit): tables, roles, alarms.
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

variable "permissions_boundary_arn" {
  description = "ARN of the permissions boundary of the roles; null for none"
  type        = string
  default     = null
}

variable "trusted_principal_arn" {
  description = "ARN of who may take the roles; null for this account, whose policies then say who may"
  type        = string
  default     = null
}

variable "trusted_service" {
  description = "AWS service that may take the role that serves calls, that which follows the stream, and the keeper's, such as ecs-tasks.amazonaws.com, instead of the principal; null for none"
  type        = string
  default     = null
}

variable "alarm_topic_arn" {
  description = "ARN of the SNS topic that alarms are sent to; null for none"
  type        = string
  default     = null
}

variable "stream_function_name" {
  description = "Lambda function that reads the stream of the limits; null for none"
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that can have some"
  type        = map(string)
  default     = {}
}

data "aws_partition" "current" {
}

data "aws_region" "current" {
}

data "aws_caller_identity" "current" {
}

locals {
  limits_table_arn = "arn:${data.aws_partition.current.partition}:dynamodb:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:table/${var.limits_table_name}"
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

# Serves calls: takes from buckets, and cannot change a limit.
resource "aws_iam_policy" "acquire" {
  name_prefix = "dynalimit-acquire-"
  description = "Serves calls: takes from buckets, and cannot change a limit"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Limits, entities and their buckets.
        {
          Sid      = "ReadLimits"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["ENTITY#*", "PLAN#*", "RESOURCE#*", "SYSTEM#"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # An entity's limits and usage have its buckets' partition key: the attributes tell them apart.
        {
          Sid      = "WriteBuckets"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = "ENTITY#*"
              "dynamodb:Attributes" = [
                "PK",
                "SK",
                "entity_id",
                "resource",
                "rf",
                "cv",
                "ct",
                "ci",
                "ttl",
                "GSI2PK",
                "GSI2SK",
                "op0",
                "op1",
                "op2",
                "op3",
                "b_*",
                "q_*",
                "s_*",
                "pu",
              ]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
              "dynamodb:Attributes"  = "false"
            }
          }
        },
      ],
      var.kms_key_arn == null ? [] : [
        # The tables are encrypted under a key of this account: DynamoDB uses it for the caller.
        {
          Sid      = "UseKey"
          Effect   = "Allow"
          Action   = ["kms:Decrypt"]
          Resource = [var.kms_key_arn]
          Condition = {
            StringLike = {
              "kms:ViaService" = "dynamodb.*"
            }
          }
        },
      ],
    )
  })
}

resource "aws_iam_role" "acquire" {
  name_prefix          = "dynalimit-acquire-"
  description          = "Serves calls: takes from buckets, and cannot change a limit"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = var.trusted_service == null ? { AWS = coalesce(var.trusted_principal_arn, "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root") } : { Service = var.trusted_service }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "acquire" {
  role       = aws_iam_role.acquire.name
  policy_arn = aws_iam_policy.acquire.arn
}

# Reads limits, entities, buckets and the history of changes.
resource "aws_iam_policy" "read" {
  name_prefix = "dynalimit-read-"
  description = "Reads limits, entities, buckets and the history of changes"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Everything that is stored.
        {
          Sid      = "ReadItems"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_table_arn, "${local.limits_table_arn}/index/*"]
        },
        # What the table is like.
        {
          Sid      = "Describe"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.limits_table_arn]
        },
      ],
      var.kms_key_arn == null ? [] : [
        # The tables are encrypted under a key of this account: DynamoDB uses it for the caller.
        {
          Sid      = "UseKey"
          Effect   = "Allow"
          Action   = ["kms:Decrypt"]
          Resource = [var.kms_key_arn]
          Condition = {
            StringLike = {
              "kms:ViaService" = "dynamodb.*"
            }
          }
        },
      ],
    )
  })
}

resource "aws_iam_role" "read" {
  name_prefix          = "dynalimit-read-"
  description          = "Reads limits, entities, buckets and the history of changes"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { AWS = coalesce(var.trusted_principal_arn, "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root") }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "read" {
  role       = aws_iam_role.read.name
  policy_arn = aws_iam_policy.read.arn
}

# Changes limits, entities and buckets.
resource "aws_iam_policy" "admin" {
  name_prefix = "dynalimit-admin-"
  description = "Changes limits, entities and buckets"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Everything that is stored.
        {
          Sid      = "ReadItems"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_table_arn, "${local.limits_table_arn}/index/*"]
        },
        # What the table is like.
        {
          Sid      = "Describe"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.limits_table_arn]
        },
        # Changes, each with its event.
        {
          Sid    = "ChangeItems"
          Effect = "Allow"
          Action = [
            "dynamodb:BatchWriteItem",
            "dynamodb:ConditionCheckItem",
            "dynamodb:DeleteItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
          ]
          Resource = [local.limits_table_arn]
        },
        # Makes the table, migrates it, and purges namespaces.
        {
          Sid      = "ChangeTable"
          Effect   = "Allow"
          Action   = ["dynamodb:CreateTable", "dynamodb:Scan", "dynamodb:UpdateTimeToLive"]
          Resource = [local.limits_table_arn]
        },
      ],
      var.kms_key_arn == null ? [] : [
        # The tables are encrypted under a key of this account: DynamoDB uses it for the caller.
        {
          Sid      = "UseKey"
          Effect   = "Allow"
          Action   = ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey"]
          Resource = [var.kms_key_arn]
          Condition = {
            StringLike = {
              "kms:ViaService" = "dynamodb.*"
            }
          }
        },
      ],
    )
  })
}

resource "aws_iam_role" "admin" {
  name_prefix          = "dynalimit-admin-"
  description          = "Changes limits, entities and buckets"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { AWS = coalesce(var.trusted_principal_arn, "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root") }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "admin" {
  role       = aws_iam_role.admin.name
  policy_arn = aws_iam_policy.admin.arn
}

# Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum.
resource "aws_cloudwatch_metric_alarm" "limits_read_throttles" {
  alarm_name          = "${var.limits_table_name}-limits-read-throttles"
  alarm_description   = "Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsReadThrottles"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI1"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI2"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ReadThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI3"
      }
    }
  }
}

# Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has.
resource "aws_cloudwatch_metric_alarm" "limits_write_throttles" {
  alarm_name          = "${var.limits_table_name}-limits-write-throttles"
  alarm_description   = "Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsWriteThrottles"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI1"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI2"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "WriteThrottleEvents"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName                = var.limits_table_name
        GlobalSecondaryIndexName = "GSI3"
      }
    }
  }
}

# DynamoDB fails. Calls go on by the policy for outages. See the region's health.
resource "aws_cloudwatch_metric_alarm" "limits_system_errors" {
  alarm_name          = "${var.limits_table_name}-limits-system-errors"
  alarm_description   = "DynamoDB fails. Calls go on by the policy for outages. See the region's health."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 5
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "LimitsSystemErrors"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "BatchGetItem"
      }
    }
  }

  metric_query {
    id = "m2"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "GetItem"
      }
    }
  }

  metric_query {
    id = "m3"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "Query"
      }
    }
  }

  metric_query {
    id = "m4"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "TransactWriteItems"
      }
    }
  }

  metric_query {
    id = "m5"

    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "SystemErrors"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
        Operation = "UpdateItem"
      }
    }
  }
}

# Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages.
resource "aws_cloudwatch_metric_alarm" "degraded_leases" {
  alarm_name          = "${var.limits_table_name}-degraded-leases"
  alarm_description   = "Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "dynalimit"
  metric_name         = "DegradedLeases"
  statistic           = "Sum"
  period              = 60
  dimensions = {
    TableName = var.limits_table_name
  }
}

# Whoever reads the table's stream is more than 5 minutes behind, or says nothing any more. See whether it runs, and whether it fails.
resource "aws_cloudwatch_metric_alarm" "stream_age" {
  alarm_name                = "${var.limits_table_name}-stream-age"
  alarm_description         = "Whoever reads the table's stream is more than 5 minutes behind, or says nothing any more. See whether it runs, and whether it fails."
  alarm_actions             = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions                = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator       = "GreaterThanOrEqualToThreshold"
  threshold                 = 300
  evaluation_periods        = 3
  treat_missing_data        = "missing"
  tags                      = var.tags
  insufficient_data_actions = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  namespace                 = "dynalimit"
  metric_name               = "StreamAgeSeconds"
  statistic                 = "Maximum"
  period                    = 60
  dimensions = {
    TableName = var.limits_table_name
  }
}

# The function that reads the table's stream is more than 5 minutes behind. See whether it fails.
resource "aws_cloudwatch_metric_alarm" "stream_function_age" {
  count               = var.stream_function_name == null ? 0 : 1
  alarm_name          = "${var.limits_table_name}-stream-function-age"
  alarm_description   = "The function that reads the table's stream is more than 5 minutes behind. See whether it fails."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 300000
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "IteratorAge"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    FunctionName = var.stream_function_name
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

output "acquire_role_arn" {
  description = "Serves calls: takes from buckets, and cannot change a limit"
  value       = aws_iam_role.acquire.arn
}

output "acquire_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.acquire.arn
}

output "read_role_arn" {
  description = "Reads limits, entities, buckets and the history of changes"
  value       = aws_iam_role.read.arn
}

output "read_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.read.arn
}

output "admin_role_arn" {
  description = "Changes limits, entities and buckets"
  value       = aws_iam_role.admin.arn
}

output "admin_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.admin.arn
}
