# Limits of LLM calls in DynamoDB (dynalimit): tables, roles, alarms, aggregator, archive, tail, keeper.
terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.32"
    }
  }
}

variable "limits_table_name" {
  description = "Name of the table: Limits, buckets, entities and their history"
  type        = string
  default     = "llm-limits"
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

variable "aggregator_code_bucket" {
  description = "S3 bucket, in the region, with the function's zip, which make lambda builds"
  type        = string
}

variable "aggregator_code_key" {
  description = "Key of the zip in the bucket; another one deploys another version"
  type        = string
}

variable "aggregator_batching_window" {
  description = "How many seconds the function waits for more records, 0 to 300: more is cheaper, and usage is later"
  type        = number
  default     = 60
}

variable "usage_retention_days" {
  description = "How many days usage is kept by the hour; 0 for ever"
  type        = number
  default     = 90
}

variable "archive_bucket" {
  description = "S3 bucket, in any region, that keeps what expires"
  type        = string
}

variable "archive_prefix" {
  description = "What the key of every object begins with, with a slash at the end"
  type        = string
  default     = "dynalimit/"
}

variable "archive_kms_key_arn" {
  description = "ARN of the KMS key, not of an alias, that objects are encrypted under; null for what the bucket says"
  type        = string
  default     = null
}

variable "keyset_secret_arn" {
  description = "ARN of the secret in Secrets Manager that has the keeper's keys; null for keys from elsewhere"
  type        = string
  default     = null
}

variable "price_object_arn" {
  description = "ARN of the object in S3 that is the keeper's list of prices; null for one from elsewhere"
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that can have some"
  type        = map(string)
  default = {
    cost-center = "42: LLM"
    team        = "search"
  }
}

data "aws_partition" "current" {
}

data "aws_region" "current" {
}

data "aws_caller_identity" "current" {
}

locals {
  limits_table_arn         = "arn:${data.aws_partition.current.partition}:dynamodb:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:table/${var.limits_table_name}"
  budget_control_table_arn = "arn:${data.aws_partition.current.partition}:dynamodb:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:table/${var.budget_control_table_name}"
  budget_usage_table_arn   = "arn:${data.aws_partition.current.partition}:dynamodb:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:table/${var.budget_usage_table_name}"
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
        # Organisations, apps and prices.
        {
          Sid      = "ReadBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.budget_control_table_arn]
        },
        # An app that was never configured is listed: an item without a quota.
        {
          Sid      = "RegisterApps"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.budget_control_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = "ORG#*"
              "dynamodb:Attributes"  = ["PK", "SK", "cfg_version", "created_at_epoch", "updated_at_epoch"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
              "dynamodb:Attributes"  = "false"
            }
          }
        },
        # What was spent, but not what was charged by hand.
        {
          Sid      = "Spend"
          Effect   = "Allow"
          Action   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]
          Resource = [local.budget_usage_table_arn]
          Condition = {
            "ForAllValues:StringNotLike" = {
              "dynamodb:LeadingKeys" = "AUDIT#*"
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
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
        # Budgets, and what was spent.
        {
          Sid      = "ReadBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"]
          Resource = [local.budget_control_table_arn, local.budget_usage_table_arn]
        },
        # What the tables are like.
        {
          Sid      = "DescribeBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.budget_control_table_arn, local.budget_usage_table_arn]
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
        # Budgets, and what was spent.
        {
          Sid      = "ReadBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"]
          Resource = [local.budget_control_table_arn, local.budget_usage_table_arn]
        },
        # What the tables are like.
        {
          Sid      = "DescribeBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
          Resource = [local.budget_control_table_arn, local.budget_usage_table_arn]
        },
        # Changes, each with its event, and the tables themselves.
        {
          Sid    = "ChangeBudgets"
          Effect = "Allow"
          Action = [
            "dynamodb:CreateTable",
            "dynamodb:DeleteItem",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
            "dynamodb:UpdateTimeToLive",
          ]
          Resource = [local.budget_control_table_arn, local.budget_usage_table_arn]
        },
        # That what is overridden is there, and a deletion under way.
        {
          Sid      = "BesideDeletions"
          Effect   = "Allow"
          Action   = ["dynamodb:ConditionCheckItem"]
          Resource = [local.budget_control_table_arn]
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

# Adds the stream of the limits to usage.
resource "aws_iam_policy" "aggregator" {
  name_prefix = "dynalimit-aggregator-"
  description = "Adds the stream of the limits to usage"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # What changed.
        {
          Sid    = "ReadStream"
          Effect = "Allow"
          Action = [
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
            "dynamodb:ListStreams",
          ]
          Resource = ["${local.limits_table_arn}/stream/*"]
        },
        # What is to be summed, and where entities stand.
        {
          Sid      = "ReadUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_table_arn, "${local.limits_table_arn}/index/*"]
        },
        # Snapshots and sums: the attributes tell them from limits and buckets.
        {
          Sid      = "WriteUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = [
                "ENTITY#*",
                "PLAN#*",
                "RESOURCE#*",
                "SYSTEM#",
                "*/ENTITY#*",
                "*/PLAN#*",
                "*/RESOURCE#*",
                "*/SYSTEM#",
              ]
              "dynamodb:Attributes" = [
                "PK",
                "SK",
                "entity_id",
                "resource",
                "window",
                "window_start",
                "total_events",
                "seq",
                "GSI3PK",
                "GSI3SK",
                "ttl",
                "u_*",
                "parent_id",
                "plan",
                "closed",
                "summed",
                "entities",
                "final",
                "made_at",
                "closed_to",
                "final_to",
                "closed_from",
                "closing",
                "finishing",
                "counted",
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

resource "aws_iam_role" "aggregator" {
  name_prefix          = "dynalimit-aggregator-"
  description          = "Adds the stream of the limits to usage"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { Service = "lambda.amazonaws.com" }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "aggregator" {
  role       = aws_iam_role.aggregator.name
  policy_arn = aws_iam_policy.aggregator.arn
}

# Keeps what expires of the limits in S3.
resource "aws_iam_policy" "archive" {
  name_prefix = "dynalimit-archive-"
  description = "Keeps what expires of the limits in S3"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # What changed.
        {
          Sid    = "ReadStream"
          Effect = "Allow"
          Action = [
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
            "dynamodb:ListStreams",
          ]
          Resource = ["${local.limits_table_arn}/stream/*"]
        },
        # Files of what expired.
        {
          Sid      = "PutObjects"
          Effect   = "Allow"
          Action   = ["s3:PutObject"]
          Resource = ["arn:${data.aws_partition.current.partition}:s3:::${var.archive_bucket}/${var.archive_prefix}*"]
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
      var.archive_kms_key_arn == null ? [] : [
        # Objects are encrypted under this key: S3 uses it for the function.
        {
          Sid      = "UseArchiveKey"
          Effect   = "Allow"
          Action   = ["kms:GenerateDataKey"]
          Resource = [var.archive_kms_key_arn]
          Condition = {
            StringLike = {
              "kms:ViaService" = "s3.*"
            }
          }
        },
      ],
    )
  })
}

resource "aws_iam_role" "archive" {
  name_prefix          = "dynalimit-archive-"
  description          = "Keeps what expires of the limits in S3"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "sts:AssumeRole"
        Principal = { Service = "lambda.amazonaws.com" }
      },
    ]
  })
}

resource "aws_iam_role_policy_attachment" "archive" {
  role       = aws_iam_role.archive.name
  policy_arn = aws_iam_policy.archive.arn
}

# Follows the stream of the limits, and turns it into usage.
resource "aws_iam_policy" "tail" {
  name_prefix = "dynalimit-tail-"
  description = "Follows the stream of the limits, and turns it into usage"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Which stream the table has.
        {
          Sid      = "FindStream"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeTable"]
          Resource = [local.limits_table_arn]
        },
        # What changed.
        {
          Sid      = "ReadStream"
          Effect   = "Allow"
          Action   = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"]
          Resource = ["${local.limits_table_arn}/stream/*"]
        },
        # What is to be summed, and where entities stand.
        {
          Sid      = "ReadUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"]
          Resource = [local.limits_table_arn, "${local.limits_table_arn}/index/*"]
        },
        # Snapshots and sums: the attributes tell them from limits and buckets.
        {
          Sid      = "WriteUsage"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = [
                "ENTITY#*",
                "PLAN#*",
                "RESOURCE#*",
                "SYSTEM#",
                "*/ENTITY#*",
                "*/PLAN#*",
                "*/RESOURCE#*",
                "*/SYSTEM#",
              ]
              "dynamodb:Attributes" = [
                "PK",
                "SK",
                "entity_id",
                "resource",
                "window",
                "window_start",
                "total_events",
                "seq",
                "GSI3PK",
                "GSI3SK",
                "ttl",
                "u_*",
                "parent_id",
                "plan",
                "closed",
                "summed",
                "entities",
                "final",
                "made_at",
                "closed_to",
                "final_to",
                "closed_from",
                "closing",
                "finishing",
                "counted",
              ]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
              "dynamodb:Attributes"  = "false"
            }
          }
        },
        # How far shards were read, and who reads them.
        {
          Sid      = "KeepPlace"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = "TAIL#*"
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
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

resource "aws_iam_role" "tail" {
  name_prefix          = "dynalimit-tail-"
  description          = "Follows the stream of the limits, and turns it into usage"
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

resource "aws_iam_role_policy_attachment" "tail" {
  role       = aws_iam_role.tail.name
  policy_arn = aws_iam_policy.tail.arn
}

# Serves budgets over HTTP.
resource "aws_iam_policy" "keeper" {
  name_prefix = "dynalimit-keeper-"
  description = "Serves budgets over HTTP"
  tags        = var.tags
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        # Organisations, prices, credentials, and what was spent.
        {
          Sid      = "ReadBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"]
          Resource = [local.budget_control_table_arn, local.budget_usage_table_arn]
        },
        # Organisations, apps, prices and credentials, each with its event; no provisioning keys.
        {
          Sid      = "Configure"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem"]
          Resource = [local.budget_control_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["AUDIT#*", "CLIENT#*", "ORG#*", "PRICE#*", "PRICELIST#*", "RETRIEVAL#*", "REVOKED#*"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # What is there of them, but neither prices nor what was revoked, nor the history of changes.
        {
          Sid      = "Amend"
          Effect   = "Allow"
          Action   = ["dynamodb:UpdateItem"]
          Resource = [local.budget_control_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["CLIENT#*", "ORG#*", "PROBE#*", "RETRIEVAL#*"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # Overrides, and what models a list had.
        {
          Sid      = "EndBudgets"
          Effect   = "Allow"
          Action   = ["dynamodb:DeleteItem"]
          Resource = [local.budget_control_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["ORG#*", "PRICELIST#*"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # That what is overridden is there, and that a deletion still runs.
        {
          Sid      = "Check"
          Effect   = "Allow"
          Action   = ["dynamodb:ConditionCheckItem"]
          Resource = [local.budget_control_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = "ORG#*"
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # What was spent, and what was charged by hand.
        {
          Sid      = "Spend"
          Effect   = "Allow"
          Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.budget_usage_table_arn]
        },
        # Limits and buckets of failed logins.
        {
          Sid      = "ReadLimits"
          Effect   = "Allow"
          Action   = ["dynamodb:BatchGetItem", "dynamodb:GetItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = ["ENTITY#*", "RESOURCE#*", "SYSTEM#"]
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
            }
          }
        },
        # Buckets alone, by their attributes.
        {
          Sid      = "CountLogins"
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
        # The lease of the one process that sweeps.
        {
          Sid      = "SweepAlone"
          Effect   = "Allow"
          Action   = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
          Resource = [local.limits_table_arn]
          Condition = {
            "ForAllValues:StringLike" = {
              "dynamodb:LeadingKeys" = "KEEPER-SWEEP#"
            }
            Null = {
              "dynamodb:LeadingKeys" = "false"
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
      var.keyset_secret_arn == null ? [] : [
        # The one secret that has the keys.
        {
          Sid      = "ReadKeys"
          Effect   = "Allow"
          Action   = ["secretsmanager:GetSecretValue"]
          Resource = [var.keyset_secret_arn]
        },
      ],
      var.price_object_arn == null ? [] : [
        # The one object that is the list of prices.
        {
          Sid      = "ReadPrices"
          Effect   = "Allow"
          Action   = ["s3:GetObject"]
          Resource = [var.price_object_arn]
        },
      ],
    )
  })
}

resource "aws_iam_role" "keeper" {
  name_prefix          = "dynalimit-keeper-"
  description          = "Serves budgets over HTTP"
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

resource "aws_iam_role_policy_attachment" "keeper" {
  role       = aws_iam_role.keeper.name
  policy_arn = aws_iam_policy.keeper.arn
}

# What the function says.
resource "aws_cloudwatch_log_group" "aggregator" {
  name_prefix       = "/aws/lambda/dynalimit-aggregator-"
  retention_in_days = 30
  tags              = var.tags
}

# Says which records were given up.
resource "aws_sqs_queue" "aggregator" {
  name_prefix               = "dynalimit-aggregator-"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_iam_role_policy" "aggregator" {
  name_prefix = "runs-"
  role        = aws_iam_role.aggregator.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "WriteLog"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "${aws_cloudwatch_log_group.aggregator.arn}:*"
      },
      {
        Sid      = "TellGivenUp"
        Effect   = "Allow"
        Action   = "sqs:SendMessage"
        Resource = aws_sqs_queue.aggregator.arn
      },
    ]
  })
}

# Adds the stream of the limits to usage, and closes its hours.
resource "aws_lambda_function" "aggregator" {
  function_name = "${var.limits_table_name}-aggregator"
  description   = "Adds the stream of the limits to usage (dynalimit)"
  runtime       = "provided.al2023"
  architectures = ["arm64"]
  handler       = "bootstrap"
  memory_size   = 512
  timeout       = 300
  s3_bucket     = var.aggregator_code_bucket
  s3_key        = var.aggregator_code_key
  role          = aws_iam_role.aggregator.arn

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.aggregator.name
  }

  environment {
    variables = {
      DYNALIMIT_TABLE          = var.limits_table_name
      DYNALIMIT_RETENTION_DAYS = var.usage_retention_days
    }
  }
  tags = var.tags
}

resource "aws_lambda_event_source_mapping" "aggregator" {
  event_source_arn                   = aws_dynamodb_table.limits.stream_arn
  function_name                      = aws_lambda_function.aggregator.arn
  starting_position                  = "TRIM_HORIZON"
  batch_size                         = 1000
  maximum_batching_window_in_seconds = var.aggregator_batching_window
  # A batch comes again from its first failure on.
  function_response_types = ["ReportBatchItemFailures"]
  # A batch that is too much for the function comes in halves.
  bisect_batch_on_function_error = true
  # Nothing is given up but by its age, half an hour before the stream drops it.
  maximum_retry_attempts        = -1
  maximum_record_age_in_seconds = 84600
  # The records of an item come one batch after the other.
  parallelization_factor = 1
  depends_on             = [aws_iam_role_policy.aggregator, aws_iam_role_policy_attachment.aggregator]

  destination_config {
    on_failure {
      destination_arn = aws_sqs_queue.aggregator.arn
    }
  }

  # Records of buckets alone.
  filter_criteria {
    filter {
      pattern = "{\"dynamodb\":{\"Keys\":{\"SK\":{\"S\":[{\"prefix\":\"#BUCKET#\"}]}}}}"
    }
  }
}

# Closes the hours that are due.
resource "aws_cloudwatch_event_rule" "aggregator" {
  name_prefix         = "dynalimit-aggregator-"
  description         = "Closes hours of usage"
  schedule_expression = "rate(5 minutes)"
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "aggregator" {
  rule = aws_cloudwatch_event_rule.aggregator.name
  arn  = aws_lambda_function.aggregator.arn
}

resource "aws_lambda_permission" "aggregator" {
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.aggregator.function_name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.aggregator.arn
}

# What the function says.
resource "aws_cloudwatch_log_group" "archive" {
  name_prefix       = "/aws/lambda/dynalimit-archive-"
  retention_in_days = 30
  tags              = var.tags
}

# Says which records were given up.
resource "aws_sqs_queue" "archive" {
  name_prefix               = "dynalimit-archive-"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_iam_role_policy" "archive" {
  name_prefix = "runs-"
  role        = aws_iam_role.archive.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "WriteLog"
        Effect   = "Allow"
        Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
        Resource = "${aws_cloudwatch_log_group.archive.arn}:*"
      },
      {
        Sid      = "TellGivenUp"
        Effect   = "Allow"
        Action   = "sqs:SendMessage"
        Resource = aws_sqs_queue.archive.arn
      },
    ]
  })
}

# Keeps changes and usage that expire.
resource "aws_lambda_function" "archive" {
  function_name = "${var.limits_table_name}-archive"
  description   = "Keeps what expires of the limits in S3 (dynalimit)"
  runtime       = "provided.al2023"
  architectures = ["arm64"]
  handler       = "bootstrap"
  memory_size   = 512
  timeout       = 300
  s3_bucket     = var.aggregator_code_bucket
  s3_key        = var.aggregator_code_key
  role          = aws_iam_role.archive.arn

  logging_config {
    log_format = "Text"
    log_group  = aws_cloudwatch_log_group.archive.name
  }

  environment {
    variables = {
      DYNALIMIT_TABLE           = var.limits_table_name
      DYNALIMIT_ARCHIVE_BUCKET  = var.archive_bucket
      DYNALIMIT_ARCHIVE_PREFIX  = var.archive_prefix
      DYNALIMIT_ARCHIVE_KMS_KEY = var.archive_kms_key_arn == null ? "" : var.archive_kms_key_arn
    }
  }
  tags = var.tags
}

resource "aws_lambda_event_source_mapping" "archive" {
  event_source_arn                   = aws_dynamodb_table.limits.stream_arn
  function_name                      = aws_lambda_function.archive.arn
  starting_position                  = "TRIM_HORIZON"
  batch_size                         = 10000
  maximum_batching_window_in_seconds = 300
  # A batch comes again from its first failure on.
  function_response_types = ["ReportBatchItemFailures"]
  # A batch that is too much for the function comes in halves.
  bisect_batch_on_function_error = true
  # Nothing is given up but by its age, half an hour before the stream drops it.
  maximum_retry_attempts        = -1
  maximum_record_age_in_seconds = 84600
  # The records of an item come one batch after the other.
  parallelization_factor = 1
  depends_on             = [aws_iam_role_policy.archive, aws_iam_role_policy_attachment.archive]

  destination_config {
    on_failure {
      destination_arn = aws_sqs_queue.archive.arn
    }
  }

  # What DynamoDB deleted by its time to live, and is archived.
  filter_criteria {
    filter {
      pattern = "{\"eventName\":[\"REMOVE\"],\"userIdentity\":{\"type\":[\"Service\"],\"principalId\":[\"dynamodb.amazonaws.com\"]},\"dynamodb\":{\"Keys\":{\"SK\":{\"S\":[{\"prefix\":\"#AUDIT#\"},{\"prefix\":\"#USAGE\"},{\"prefix\":\"#CHILDREN_\"}]}}}}"
    }
  }
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

# Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum.
resource "aws_cloudwatch_metric_alarm" "budget_control_read_throttles" {
  alarm_name          = "${var.limits_table_name}-budget-control-read-throttles"
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
    label       = "BudgetControlReadThrottles"
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
        TableName = var.budget_control_table_name
      }
    }
  }
}

# Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has.
resource "aws_cloudwatch_metric_alarm" "budget_control_write_throttles" {
  alarm_name          = "${var.limits_table_name}-budget-control-write-throttles"
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
    label       = "BudgetControlWriteThrottles"
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
        TableName = var.budget_control_table_name
      }
    }
  }
}

# DynamoDB fails. Calls go on by the policy for outages. See the region's health.
resource "aws_cloudwatch_metric_alarm" "budget_control_system_errors" {
  alarm_name          = "${var.limits_table_name}-budget-control-system-errors"
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
    label       = "BudgetControlSystemErrors"
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
        TableName = var.budget_control_table_name
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
        TableName = var.budget_control_table_name
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
        TableName = var.budget_control_table_name
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
        TableName = var.budget_control_table_name
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
        TableName = var.budget_control_table_name
        Operation = "UpdateItem"
      }
    }
  }
}

# Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum.
resource "aws_cloudwatch_metric_alarm" "budget_usage_read_throttles" {
  alarm_name          = "${var.limits_table_name}-budget-usage-read-throttles"
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
    label       = "BudgetUsageReadThrottles"
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
        TableName = var.budget_usage_table_name
      }
    }
  }
}

# Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has.
resource "aws_cloudwatch_metric_alarm" "budget_usage_write_throttles" {
  alarm_name          = "${var.limits_table_name}-budget-usage-write-throttles"
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
    label       = "BudgetUsageWriteThrottles"
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
        TableName = var.budget_usage_table_name
      }
    }
  }
}

# DynamoDB fails. Calls go on by the policy for outages. See the region's health.
resource "aws_cloudwatch_metric_alarm" "budget_usage_system_errors" {
  alarm_name          = "${var.limits_table_name}-budget-usage-system-errors"
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
    label       = "BudgetUsageSystemErrors"
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
        TableName = var.budget_usage_table_name
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
        TableName = var.budget_usage_table_name
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
        TableName = var.budget_usage_table_name
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
        TableName = var.budget_usage_table_name
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
        TableName = var.budget_usage_table_name
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

# The function that reads the table's stream is far behind. See whether it fails.
resource "aws_cloudwatch_metric_alarm" "stream_function_age" {
  alarm_name          = "${var.limits_table_name}-stream-function-age"
  alarm_description   = "The function that reads the table's stream is far behind. See whether it fails."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 900000
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "IteratorAge"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    FunctionName = aws_lambda_function.aggregator.function_name
  }
}

# The function that adds up usage fails: its batch comes again, or hours stay open. See its log.
resource "aws_cloudwatch_metric_alarm" "aggregator_errors" {
  alarm_name          = "${var.limits_table_name}-aggregator-errors"
  alarm_description   = "The function that adds up usage fails: its batch comes again, or hours stay open. See its log."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  statistic           = "Sum"
  period              = 60
  dimensions = {
    FunctionName = aws_lambda_function.aggregator.function_name
  }
}

# Records were given up before they were added to usage. The message says which: they can be read for half an hour more.
resource "aws_cloudwatch_metric_alarm" "aggregator_dead_letters" {
  alarm_name          = "${var.limits_table_name}-aggregator-dead-letters"
  alarm_description   = "Records were given up before they were added to usage. The message says which: they can be read for half an hour more."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    QueueName = aws_sqs_queue.aggregator.name
  }
}

# Records were skipped because they cannot be read, or never came: usage is missing. See the function's log, and repair it.
resource "aws_cloudwatch_metric_alarm" "usage_missing" {
  alarm_name          = "${var.limits_table_name}-usage-missing"
  alarm_description   = "Records were skipped because they cannot be read, or never came: usage is missing. See the function's log, and repair it."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags

  metric_query {
    id          = "total"
    expression  = "SUM(FILL(METRICS(), 0))"
    label       = "UsageMissing"
    return_data = true
  }

  metric_query {
    id = "m1"

    metric {
      namespace   = "dynalimit"
      metric_name = "RecordsSkipped"
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
      namespace   = "dynalimit"
      metric_name = "UsageGaps"
      stat        = "Sum"
      period      = 60
      dimensions = {
        TableName = var.limits_table_name
      }
    }
  }
}

# What expires is more than an hour late in the archive: objects cannot be put. See the function's log: after a day it is lost.
resource "aws_cloudwatch_metric_alarm" "archive_age" {
  alarm_name          = "${var.limits_table_name}-archive-age"
  alarm_description   = "What expires is more than an hour late in the archive: objects cannot be put. See the function's log: after a day it is lost."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 3600000
  evaluation_periods  = 3
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "IteratorAge"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    FunctionName = aws_lambda_function.archive.function_name
  }
}

# The function that archives fails: its batch comes again. See its log.
resource "aws_cloudwatch_metric_alarm" "archive_errors" {
  alarm_name          = "${var.limits_table_name}-archive-errors"
  alarm_description   = "The function that archives fails: its batch comes again. See its log."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/Lambda"
  metric_name         = "Errors"
  statistic           = "Sum"
  period              = 60
  dimensions = {
    FunctionName = aws_lambda_function.archive.function_name
  }
}

# Records were given up before they were archived. The message says which: they can be read for half an hour more.
resource "aws_cloudwatch_metric_alarm" "archive_dead_letters" {
  alarm_name          = "${var.limits_table_name}-archive-dead-letters"
  alarm_description   = "Records were given up before they were archived. The message says which: they can be read for half an hour more."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  statistic           = "Maximum"
  period              = 60
  dimensions = {
    QueueName = aws_sqs_queue.archive.name
  }
}

# Records were skipped because they cannot be read: what expired with them is not in the archive. See the function's log.
resource "aws_cloudwatch_metric_alarm" "archive_missing" {
  alarm_name          = "${var.limits_table_name}-archive-missing"
  alarm_description   = "Records were skipped because they cannot be read: what expired with them is not in the archive. See the function's log."
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  ok_actions          = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  tags                = var.tags
  namespace           = "dynalimit"
  metric_name         = "ArchiveSkipped"
  statistic           = "Sum"
  period              = 60
  dimensions = {
    TableName = var.limits_table_name
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

output "aggregator_role_arn" {
  description = "Adds the stream of the limits to usage"
  value       = aws_iam_role.aggregator.arn
}

output "aggregator_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.aggregator.arn
}

output "archive_role_arn" {
  description = "Keeps what expires of the limits in S3"
  value       = aws_iam_role.archive.arn
}

output "archive_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.archive.arn
}

output "tail_role_arn" {
  description = "Follows the stream of the limits, and turns it into usage"
  value       = aws_iam_role.tail.arn
}

output "tail_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.tail.arn
}

output "keeper_role_arn" {
  description = "Serves budgets over HTTP"
  value       = aws_iam_role.keeper.arn
}

output "keeper_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.keeper.arn
}
