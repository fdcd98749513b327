import Testing

@testable import LanyardConfiguration

@Suite struct ConfigurationChangesTests {
    @Test("the keys that need a restart, by name: what is bound, opened or started once")
    func restartOnly() {
        let keys = ConfigurationKeys.all.map(\.path).filter { !ConfigurationChanges.livePaths.contains($0) }
        #expect(
            keys == [
                "listeners", "listeners[].address", "listeners[].tls", "listeners[].socket_mode", "health",
                "health.address", "health.metrics_per_user", "health.metrics_per_route", "admin", "admin.address",
                "admin.token_file", "admin.token_credential", "admin.expose_tokens", "brokers", "brokers[].address",
                "brokers[].tls", "brokers[].socket_mode", "store", "store.path", "store.key_file",
                "store.key_credential", "store.passphrase_file", "store.passphrase_credential", "store.memory",
                "shutdown", "shutdown.logout", "sandbox", "user", "shards",
            ])
    }
}
