"""What tests share: generators of architectures and models, terminals, browsers, oracles."""
