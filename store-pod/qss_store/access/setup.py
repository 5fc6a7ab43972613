"""Access and TLS of one pod, from its command line."""

import argparse
import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from qss_client.clock import Clock
from qss_client.http.credentials import Credentials
from qss_core.audiences import own_audience
from qss_store.access.review_client import ApiServer
from qss_store.access.rights import Identities
from qss_store.access.tls import Certificates
from qss_store.access.token_check import Guard
from qss_store.access.token_claims import Audiences
from qss_store.runtime.command_line import service_account
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessSetup:
    """The guard and TLS of the listeners, and the credentials that peers are shown."""

    guard: Guard | None = None
    server: ssl.SSLContext | None = None
    trust: Callable[[], ssl.SSLContext] | None = None
    credentials: Callable[[], Mapping[str, str]] | None = None


@asynccontextmanager
async def protected(
    arguments: argparse.Namespace, settings: Settings, clock: Clock, metrics: Metrics
) -> AsyncIterator[AccessSetup]:
    """Watches the certificate while the block runs. Raises tls.CertificateError."""
    guard: Guard | None = None
    certificates: Certificates | None = None
    async with AsyncExitStack() as stack:
        if arguments.tls_dir is not None:
            loads = metrics.certificate_loads
            certificates = Certificates(
                arguments.tls_dir, lambda result: loads.labels(result).inc()
            )
            watch = asyncio.create_task(
                certificates.watch(settings.tls_look_interval_s), name="certificates"
            )
            stack.callback(watch.cancel)
        if arguments.authentication == "serviceaccount":
            api_server = await stack.enter_async_context(
                ApiServer(
                    arguments.kubernetes_api,
                    arguments.kubernetes_credentials,
                    settings.access_review_timeout_s,
                )
            )
            identities = identities_of(arguments)
            audiences = audiences_of(arguments)
            guard = Guard(api_server, identities, audiences, clock, metrics.access, settings)
            stack.push_async_callback(guard.close)
        yield AccessSetup(
            guard=guard,
            server=None if certificates is None else certificates.server,
            trust=None if certificates is None else lambda: certificates.client,
            credentials=_credentials(arguments),
        )


def audiences_of(arguments: argparse.Namespace) -> Audiences:
    """The audiences of callers' tokens, from the command line."""
    return Audiences(
        own=arguments.token_audience or own_audience(arguments.namespace, arguments.store),
        common=arguments.common_audience,
        peers=arguments.peers_audience,
    )


def identities_of(arguments: argparse.Namespace) -> Identities:
    operator = arguments.operator_service_account
    return Identities(
        store=arguments.store,
        namespace=arguments.namespace,
        pods=service_account(arguments.namespace, arguments.peer_service_account),
        operator=None if operator is None else service_account(*operator),
        audience=audiences_of(arguments).own,
    )


def _credentials(arguments: argparse.Namespace) -> Callable[[], Mapping[str, str]] | None:
    if arguments.peer_token_file is None:
        return None
    return Credentials(token_file=arguments.peer_token_file).headers
