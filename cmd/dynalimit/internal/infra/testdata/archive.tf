# Limits of LLM calls in DynamoDB (dynalimit): alarms, archive.
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
  default     = "limits"
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

variable "aggregator_code_bucket" {
  description = "S3 bucket, in the region, with the function's zip, which make lambda builds"
  type        = string
}

variable "aggregator_code_key" {
  description = "Key of the zip in the bucket; another one deploys another version"
  type        = string
}

variable "limits_stream_arn" {
  description = "ARN of the stream of the limits' table"
  type        = string
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
  event_source_arn                   = var.limits_stream_arn
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

output "archive_role_arn" {
  description = "Keeps what expires of the limits in S3"
  value       = aws_iam_role.archive.arn
}

output "archive_policy_arn" {
  description = "The policy, to attach to a role of yours"
  value       = aws_iam_policy.archive.arn
}
