"""Produces the record in RECORD with aiokafka."""
import asyncio
import json
import os

from aiokafka import AIOKafkaProducer


async def main():
    record = os.environ["RECORD"]
    producer = AIOKafkaProducer(
        bootstrap_servers=os.environ["KAFKA"],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username=os.environ["KAFKA_USER"],
        sasl_plain_password=os.environ["KAFKA_PASSWORD"],
    )
    await producer.start()
    try:
        key = str(json.loads(record)["user_id"]).encode()
        await producer.send_and_wait(os.environ["TOPIC"], key=key, value=record.encode())
    finally:
        await producer.stop()


asyncio.run(main())
