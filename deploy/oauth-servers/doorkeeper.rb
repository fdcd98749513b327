# ruby-doorkeeper on Rails in one file, as doorkeeper_server.py starts it: WORK folder, port and lifetime of access tokens as arguments.
# With the column previous_refresh_token the former pair is revoked when the new access token is first used.
require "rails"
require "action_controller/railtie"
require "active_record/railtie"
require "doorkeeper"
require "webrick"
require "rack/handler/webrick"

WORK, PORT, LIFETIME = ARGV[0], ARGV[1].to_i, ARGV[2].to_i

class Peer < Rails::Application
  config.root = WORK
  config.eager_load = false
  config.hosts.clear
  config.secret_key_base = "of-a-test" * 8
  config.logger = Logger.new($stderr, level: :warn)
  config.active_record.legacy_connection_handling = false if config.active_record.respond_to?(:legacy_connection_handling=)
end

ENV["DATABASE_URL"] = "sqlite3:#{WORK}/idp.sqlite3?timeout=20000"
Doorkeeper.configure do
  orm :active_record
  resource_owner_authenticator { nil }
  resource_owner_from_credentials { |_| params[:username] == "alice" && params[:password] == "wonderland" ? Struct.new(:id).new(1) : nil }
  grant_flows %w[password client_credentials]
  access_token_expires_in LIFETIME
  use_refresh_token
  default_scopes :api
  skip_client_authentication_for_password_grant false
end

Peer.initialize!
Doorkeeper.setup_orm_adapter if Doorkeeper.respond_to?(:setup_orm_adapter)

ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table :oauth_applications do |t|
    t.string :name, null: false
    t.string :uid, null: false
    t.string :secret, null: false
    t.text :redirect_uri
    t.string :scopes, null: false, default: ""
    t.boolean :confidential, null: false, default: true
    t.timestamps null: false
  end
  create_table :oauth_access_tokens do |t|
    t.bigint :resource_owner_id
    t.bigint :application_id, null: false
    t.string :token, null: false
    t.string :refresh_token
    t.integer :expires_in
    t.datetime :revoked_at
    t.datetime :created_at, null: false
    t.string :scopes
    t.string :previous_refresh_token, null: false, default: ""
  end
  create_table :oauth_access_grants do |t|
    t.bigint :resource_owner_id, null: false
    t.bigint :application_id, null: false
    t.string :token, null: false
    t.integer :expires_in, null: false
    t.text :redirect_uri, null: false
    t.datetime :created_at, null: false
    t.datetime :revoked_at
    t.string :scopes, null: false, default: ""
  end
end
Doorkeeper::Application.create!(
  name: "lanyard", uid: "lanyard", secret: "s3cret", redirect_uri: "urn:ietf:wg:oauth:2.0:oob", scopes: "api")

class ResourceController < ActionController::API
  before_action :doorkeeper_authorize!

  def show
    render json: { ok: true }
  end
end

Peer.routes.draw do
  use_doorkeeper { skip_controllers :applications, :authorized_applications }
  get "/resource", to: "resource#show"
end
# One request at a time: while SQLite waits for another thread's lock it holds the interpreter, so that thread never gives it up.
Rack::Handler::WEBrick.run(
  Rack::Lock.new(Peer), Port: PORT, Host: "127.0.0.1", AccessLog: [], Logger: WEBrick::Log.new($stderr, WEBrick::Log::WARN))
