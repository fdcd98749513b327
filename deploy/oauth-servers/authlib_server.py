"""Runs an application with Authlib's authorization server (from PyPI), as its pages show one, on loopback until it is ended.

The first line says the port. The client is lanyard with the secret s3cret, the user alice with the password wonderland. A refresh brings
another refresh token, and revokes the row of the former one.
"""

import os
import time

import peer


def main():
    options = peer.flags()
    peer.in_interpreter(options)
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    from authlib.integrations.flask_oauth2 import AuthorizationServer, ResourceProtector
    from authlib.integrations.sqla_oauth2 import (
        OAuth2ClientMixin, OAuth2TokenMixin, create_bearer_token_validator, create_query_client_func, create_revocation_endpoint,
        create_save_token_func)
    from authlib.oauth2.rfc6749 import grants
    from flask import Flask, jsonify
    from sqlalchemy import Column, ForeignKey, Integer, String, create_engine
    from sqlalchemy.orm import declarative_base, relationship, scoped_session, sessionmaker
    from werkzeug.serving import make_server

    Base = declarative_base()

    class User(Base):
        __tablename__ = "user"
        id = Column(Integer, primary_key=True)
        name = Column(String(40))

        def get_user_id(self):
            return self.id

    class Client(Base, OAuth2ClientMixin):
        __tablename__ = "client"
        id = Column(Integer, primary_key=True)

    class Token(Base, OAuth2TokenMixin):
        __tablename__ = "token"
        id = Column(Integer, primary_key=True)
        user_id = Column(Integer, ForeignKey("user.id"))
        user = relationship("User")

    engine = create_engine(f"sqlite:///{options.work}/idp.sqlite3", connect_args={"check_same_thread": False})
    Base.metadata.create_all(engine)
    session = scoped_session(sessionmaker(bind=engine))
    session.add(User(id=1, name="alice"))
    client = Client(client_id="lanyard", client_secret="s3cret", client_id_issued_at=int(time.time()))
    client.set_client_metadata({
        "client_name": "lanyard", "grant_types": ["password", "refresh_token"], "scope": "api",
        "token_endpoint_auth_method": "client_secret_basic", "response_types": []})
    session.add(client)
    session.commit()

    class Password(grants.ResourceOwnerPasswordCredentialsGrant):
        def authenticate_user(self, username, password):
            return session.get(User, 1) if (username, password) == ("alice", "wonderland") else None

    class Refresh(grants.RefreshTokenGrant):
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, refresh_token):
            found = session.query(Token).filter_by(refresh_token=refresh_token).first()
            return found if found and not found.refresh_token_revoked_at else None

        def authenticate_user(self, refresh_token):
            return refresh_token.user

        def revoke_old_credential(self, refresh_token):
            refresh_token.refresh_token_revoked_at = int(time.time())
            session.commit()

    app = Flask("peer")
    app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
    app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {"password": options.lifetime, "refresh_token": options.lifetime}
    server = AuthorizationServer(
        app, query_client=create_query_client_func(session, Client), save_token=create_save_token_func(session, Token))
    server.register_grant(Password)
    server.register_grant(Refresh)
    server.register_endpoint(create_revocation_endpoint(session, Token))
    protector = ResourceProtector()
    protector.register_token_validator(create_bearer_token_validator(session, Token)())
    app.post("/token")(lambda: server.create_token_response())
    app.post("/revoke", endpoint="revoke")(lambda: server.create_endpoint_response("revocation"))
    app.get("/resource", endpoint="resource")(protector("api")(lambda: jsonify(ok=True)))
    app.teardown_appcontext(lambda _: session.remove())
    listener = make_server("127.0.0.1", 0, app, threaded=True)
    print(f"port {listener.port}", flush=True)
    listener.serve_forever()


main()
