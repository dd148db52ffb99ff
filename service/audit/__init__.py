"""The audit over HTTP; it is written by ``kit.audit``, with every act."""
