FROM debian-base
ENV PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
COPY postgres-entrypoint /usr/local/bin/
ENTRYPOINT ["postgres-entrypoint"]
CMD ["postgres"]
