"""Produces the record in RECORD with kafka-python."""
import json
import os

from kafka import KafkaProducer

record = os.environ["RECORD"]
producer = KafkaProducer(
    bootstrap_servers=os.environ["KAFKA"],
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="SCRAM-SHA-256",
    sasl_plain_username=os.environ["KAFKA_USER"],
    sasl_plain_password=os.environ["KAFKA_PASSWORD"],
)
key = str(json.loads(record)["user_id"]).encode()
producer.send(os.environ["TOPIC"], key=key, value=record.encode()).get(timeout=30)
producer.close()
